"""Trees and stacks as JSON values and arrays, and back with everything checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import BadInput
from .calibration.base import number
from .ensemble_fusion import BoostedFusion, EnsembleFusion, ForestFusion
from .fusion import LogisticFusion
from .fusion_members import BoostedMember, ForestMember, LinearMember, Member
from .fusion_settings import BOOSTED, FOREST, LOGISTIC, MEMBERS, STACKED, VECTORS
from .stacked_fusion import StackedFusion
from .tree_ensemble import PARTS, TreeEnsemble

Arrays = dict[str, NDArray[Any]]
Take = Callable[..., NDArray[Any]]
"""Hands out a stored array once its shape, type and values are checked: (arrays, name, shape, dtype, finite=)."""

VERSION = 1

_KINDS: dict[str, Callable[[tuple[str, ...]], EnsembleFusion]] = {
    FOREST: ForestFusion,
    BOOSTED: BoostedFusion,
    STACKED: StackedFusion,
}


def ensemble_to_parts(fusion: EnsembleFusion) -> tuple[dict[str, Any], Arrays]:
    """What is stored beside the logistic member: JSON values to add to a head's, and arrays."""
    meta: dict[str, Any] = {
        "method": fusion.method,
        "method_version": VERSION,
        "voices": list(fusion.voices_),
        "members": {},
    }
    arrays: Arrays = {"stack.weights": fusion.weights_, "stack.bias": np.array([fusion.bias_])}
    for name, member in fusion.members_.items():
        if isinstance(member, LinearMember):
            meta["members"][name] = {"intercept": member.intercept}
            parts: Arrays = {"coefficients": member.coefficients}
        elif isinstance(member, ForestMember):
            meta["members"][name] = {"rows": member.rows}
            parts = member.trees.to_arrays()
        elif isinstance(member, BoostedMember):
            meta["members"][name] = {"start": member.start}
            parts = member.trees.to_arrays()
        else:
            raise TypeError(f"member {name!r} is {type(member).__name__}, which cannot be stored")
        arrays |= {f"member.{name}.{part}": array for part, array in parts.items()}
    return meta, arrays


def ensemble_from_parts(
    meta: Mapping[str, Any], arrays: Arrays, logistic: LogisticFusion, take: Take
) -> EnsembleFusion:
    """Back from `ensemble_to_parts`; used arrays are taken out of `arrays`.

    Raises:
        BadInput: an unknown method, version or member, or an array that is not what it should be.
    """
    method, version = meta["method"], meta["method_version"]
    if method not in _KINDS or version != VERSION:
        raise BadInput(
            f"stored head: method {str(method)[:60]!r} version {str(version)[:20]!r} is unknown; this Demur reads "
            f"{sorted(_KINDS)} version {VERSION}. Fit again"
        )
    fusion = _KINDS[method](logistic.names)
    fusion.logistic_ = logistic
    voices = tuple(str(name) for name in meta["voices"])
    if not voices or len(set(voices)) != len(voices) or any(name not in MEMBERS for name in voices):
        raise BadInput(f"stored head: members {voices[:9]} must be distinct and among {MEMBERS}")
    if method != STACKED and voices != (method,):
        raise BadInput(f"stored head: method {method!r} with members {voices[:9]}")
    if set(meta["members"]) != {name for name in voices if name != LOGISTIC}:
        raise BadInput("stored head: the stored members are not those that are named")
    fusion.voices_ = voices
    width = len(logistic.names_)
    fusion.members_ = {
        name: _member(name, meta["members"][name], arrays, width, take) for name in voices if name != LOGISTIC
    }
    fusion.weights_ = take(arrays, "stack.weights", (len(voices),))
    fusion.bias_ = float(take(arrays, "stack.bias", (1,))[0])
    if (fusion.weights_ < 0.0).any():
        raise BadInput("stored head: the weights of a stack must not be negative")
    return fusion


def _member(name: str, meta: Mapping[str, Any], arrays: Arrays, width: int, take: Take) -> Member:
    if name == VECTORS:
        return LinearMember(take(arrays, f"member.{name}.coefficients", (width,)), number(meta, "intercept"))
    found: dict[str, Any] = {}
    for part, dtype in PARTS.items():
        stored = arrays.get(f"member.{name}.{part}")
        found[part] = take(arrays, f"member.{name}.{part}", (0 if stored is None else stored.size,), dtype)
    trees = TreeEnsemble(**found, width=width)
    if name == BOOSTED:
        return BoostedMember(trees, number(meta, "start"))
    rows = meta["rows"]
    if not isinstance(rows, int) or isinstance(rows, bool):
        raise BadInput(f"stored head: a forest of {str(rows)[:20]!r} rows")
    return ForestMember(trees, rows)

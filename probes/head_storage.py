"""A head as JSON values and arrays, and back with every shape checked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.decision import Stage
from ..core.errors import BadInput
from .access import Access
from .calibration.base import number
from .calibration.registry import calibrator_from_dict
from .ensemble_fusion import EnsembleFusion
from .fusion import LogisticFusion
from .fusion_storage import ensemble_from_parts, ensemble_to_parts
from .gaussian import SignalGaussian
from .head import Fusion, Head, OutOfFold, Replicas
from .hidden_state import HiddenStateProbe
from .pooling import PartialPooling
from .stacked_fusion import StackedFusion

Arrays = dict[str, NDArray[Any]]

_PROBE_PARTS = ("mean", "scale", "direction", "intercept", "C")


def head_to_parts(head: Head) -> tuple[dict[str, Any], Arrays]:
    """JSON values and arrays that together are the head."""
    fusion, gaussian, rows = head.fusion, head.fusion.gaussian_, head.out_of_fold
    logistic = fusion if isinstance(fusion, LogisticFusion) else fusion.logistic_
    meta = {
        "arm": head.arm,
        "stage": head.stage.value,
        "tier": head.tier,
        "labels": head.labels,
        "right": head.right,
        "fitted_at": head.fitted_at.isoformat(),
        "min_informative": head.min_informative,
        "brier": dict(head.brier),
        "notes": list(head.notes),
        "names": list(fusion.names),
        "columns": [int(column) for column in gaussian.columns_],
        "dropped": dict(gaussian.notes_),
        "C": logistic.C_,
        "vectors": list(head.probes),
        "calibrator": head.calibrator.to_dict(),
        "replica_calibrators": [calibrator.to_dict() for calibrator in head.replicas.calibrators],
    }
    arrays: Arrays = {
        "fusion.centre": gaussian.centre_,
        "fusion.scale": gaussian.scale_,
        "fusion.covariance": gaussian.covariance_,
        "fusion.coefficients": logistic.coefficients_,
        "fusion.intercept": np.array([logistic.intercept_]),
        "replicas.coefficients": head.replicas.coefficients,
        "replicas.intercepts": head.replicas.intercepts,
        "rows.log_odds": rows.log_odds,
        "rows.probability": rows.probability,
        "rows.correct": rows.correct,
        "rows.groups": rows.groups,
        "rows.folds": rows.folds,
        "rows.weights": rows.weights,
    }
    # A logistic head is stored as it always was, so that its artefact keeps its id.
    if isinstance(fusion, EnsembleFusion):
        added, more = ensemble_to_parts(fusion)
        meta |= added | {"member_scores": {name: dict(scores) for name, scores in head.members.items()}}
        arrays |= more
    if head.replicas.stacks is not None:
        arrays["replicas.stacks"] = head.replicas.stacks
    if head.pooling is not None:
        meta["pooling"] = head.pooling.to_dict()
    if head.access is not Access.WHITE:
        meta["access"] = head.access.value
    for vector, probe in head.probes.items():
        arrays |= {f"probe.{vector}.{part}": array for part, array in probe.to_arrays().items()}
    return meta, {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def head_from_parts(meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Head:
    """Back from `head_to_parts`.

    Raises:
        BadInput: something is missing, left over, of the wrong shape or type, or not finite.
    """
    try:
        return _build(meta, dict(arrays))
    except BadInput:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise BadInput(f"stored head {meta.get('arm')!r}: {type(error).__name__}: {error}") from error


def _build(meta: Mapping[str, Any], arrays: Arrays) -> Head:
    names, columns = tuple(meta["names"]), [int(column) for column in meta["columns"]]
    kept, labels, count = len(columns), int(meta["labels"]), len(meta["replica_calibrators"])
    if kept == 0 or sorted(set(columns)) != columns or columns[0] < 0 or columns[-1] >= len(names):
        raise BadInput(f"stored head: columns {columns[:20]} must ascend within the {len(names)} names")
    gaussian = SignalGaussian()
    gaussian.columns_ = np.asarray(columns, dtype=np.int64)
    gaussian.notes_ = {str(name): str(why) for name, why in meta["dropped"].items()}
    gaussian.centre_ = _take(arrays, "fusion.centre", (kept,))
    gaussian.scale_ = _take(arrays, "fusion.scale", (kept,))
    gaussian.covariance_ = _take(arrays, "fusion.covariance", (kept, kept))
    if (gaussian.scale_ <= 0.0).any() or np.linalg.eigvalsh(gaussian.covariance_)[0] <= 0.0:
        raise BadInput("stored head: scales must be above 0 and the covariance positive definite")
    logistic = LogisticFusion(names)
    logistic.gaussian_ = gaussian
    logistic.names_ = tuple(names[column] for column in columns)
    logistic.C_ = number(meta, "C")
    logistic.coefficients_ = _take(arrays, "fusion.coefficients", (kept,))
    logistic.intercept_ = float(_take(arrays, "fusion.intercept", (1,))[0])
    fusion: Fusion = logistic
    stacks = None
    if "method" in meta:
        fusion = ensemble_from_parts(meta, arrays, logistic, _take)
        if isinstance(fusion, StackedFusion):
            stacks = _take(arrays, "replicas.stacks", (count, len(fusion.voices_) + 1))
            if (stacks[:, :-1] < 0.0).any():
                raise BadInput("stored head: the weights of a stack must not be negative")
    probes = {vector: _probe(arrays, str(vector)) for vector in meta["vectors"]}
    replicas = Replicas(
        _take(arrays, "replicas.coefficients", (count, kept)),
        _take(arrays, "replicas.intercepts", (count,)),
        tuple(calibrator_from_dict(stored) for stored in meta["replica_calibrators"]),
        stacks,
    )
    rows = OutOfFold(
        log_odds=_take(arrays, "rows.log_odds", (labels,), finite=False),
        probability=_take(arrays, "rows.probability", (labels,), finite=False),
        correct=_take(arrays, "rows.correct", (labels,)),
        groups=_take(arrays, "rows.groups", (labels,), np.int64),
        folds=_take(arrays, "rows.folds", (labels,), np.int64),
        weights=_take(arrays, "rows.weights", (labels,)),
    )
    if arrays:
        raise BadInput(f"stored head: arrays {sorted(arrays)[:5]} belong to nothing")
    if count < 1 or int(rows.correct.sum()) != int(meta["right"]):
        raise BadInput("stored head: the counts of replicas or right rows do not agree with the arrays")
    return Head(
        arm=str(meta["arm"]),
        stage=Stage(meta["stage"]),
        fusion=fusion,
        probes=probes,
        calibrator=calibrator_from_dict(meta["calibrator"]),
        replicas=replicas,
        out_of_fold=rows,
        labels=labels,
        right=int(meta["right"]),
        tier=str(meta["tier"]),
        fitted_at=datetime.fromisoformat(meta["fitted_at"]),
        min_informative=number(meta, "min_informative"),
        brier={str(name): float(value) for name, value in meta["brier"].items()},
        notes=tuple(str(note) for note in meta["notes"]),
        access=Access(meta.get("access", Access.WHITE)),
        pooling=PartialPooling.from_dict(meta["pooling"]) if "pooling" in meta else None,
        members={
            str(name): {str(key): number(scores, key) for key in scores}
            for name, scores in meta.get("member_scores", {}).items()
        },
    )


def _probe(arrays: Arrays, vector: str) -> HiddenStateProbe:
    names = {part: f"probe.{vector}.{part}" for part in _PROBE_PARTS}
    return HiddenStateProbe.from_arrays(vector, {part: arrays.pop(n) for part, n in names.items() if n in arrays})


def _take(
    arrays: Arrays, name: str, shape: tuple[int, ...], dtype: type = np.float64, *, finite: bool = True
) -> NDArray[Any]:
    if name not in arrays:
        raise BadInput(f"stored head: array {name} is missing")
    array = arrays.pop(name)
    if array.shape != shape or array.dtype != dtype:
        raise BadInput(f"stored head: {name} is {array.dtype} {array.shape}; {np.dtype(dtype)} {shape} is needed")
    if np.isinf(array).any() if not finite else not np.isfinite(array).all():
        raise BadInput(f"stored head: {name} holds values that are not finite")
    return array

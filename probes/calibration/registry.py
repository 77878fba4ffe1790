"""Calibrators by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.errors import BadInput, ConfigurationError
from .base import Calibrator
from .beta import Beta
from .cross_venn_abers import CrossVennAbers
from .dirichlet import Dirichlet
from .histogram import Histogram
from .identity import Identity
from .isotonic import Isotonic
from .parametrised_temperature import ParametrisedTemperature
from .platt import Platt
from .platt_prior import PlattPrior
from .scaling_binning import ScalingBinning
from .temperature import Temperature
from .venn_abers import VennAbers

CALIBRATORS: dict[str, type[Calibrator]] = {
    kind.name: kind
    for kind in (
        Identity,
        Temperature,
        Platt,
        PlattPrior,
        Beta,
        Dirichlet,
        ParametrisedTemperature,
        ScalingBinning,
        Histogram,
        VennAbers,
        CrossVennAbers,
        Isotonic,
    )
}


def make_calibrator(name: str) -> Calibrator:
    """An unfitted calibrator.

    Raises:
        ConfigurationError: there is none of that name.
    """
    if name not in CALIBRATORS:
        raise ConfigurationError(f"no calibrator {name!r}; there are {sorted(CALIBRATORS)}")
    return CALIBRATORS[name]()


def calibrator_from_dict(data: Mapping[str, Any]) -> Calibrator:
    """Back from `Calibrator.to_dict`.

    Raises:
        BadInput: an unknown name, or a value that is missing or not finite.
    """
    name = data.get("name")
    if not isinstance(name, str) or name not in CALIBRATORS:
        raise BadInput(f"stored calibrator {name!r} is unknown; there are {sorted(CALIBRATORS)}")
    return CALIBRATORS[name].from_dict(data)

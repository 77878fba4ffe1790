"""Smooth calibration error (smECE, arXiv 2309.12236), as the paper's own library relplot computes it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import ConfigurationError
from ..estimate import Estimate
from ..inputs import Floats, check_scored
from .bootstrap import Statistic, estimate

NULL_DRAWS = 1000
"""How often labels are redrawn to learn what smECE a calibrated forecaster has on these confidences."""
LEVEL = 0.95

# relplot's mesh, and where it stops growing for narrow kernels so that 20,000 rows fit in memory.
_MESH, _FINEST_MESH = 200, 500
# relplot cuts its kernel off here, which shows when it is wide.
_REACH = 0.5
# Redrawn residuals are gathered on this many points, far finer than any kernel; the search's steps are 2^-10.
_GRID, _REFINE = 1001, 10
_BLOCK = 4_000_000


def smece(confidence: ArrayLike, correct: ArrayLike) -> float:
    """smECE of probabilities, shape (n,), against labels 0 or 1; in [0, 1], 0 is calibrated.

    A calibrated forecaster's smECE is above 0 on finitely many rows, about n^(-1/2) to n^(-1/3).

    Raises:
        BadInput: not probabilities, not labels, lengths differ, or no rows.
    """
    return smece_and_width(*check_scored(confidence, correct, probabilities=True))[0]


def smece_and_width(confidence: Floats, labels: Floats) -> tuple[float, float]:
    """smECE and the kernel width at which it equals itself."""
    import relplot

    value, width = relplot.smECE(confidence, labels, return_width=True)
    return float(value), float(width)


def smece_statistic(confidence: Floats, labels: Floats, width: float) -> Statistic:
    """smECE of resamples at the kernel width found on all rows.

    At a fixed width smECE is a ratio of sums over rows, so that all resamples are one matrix product: the same
    reflected Gaussian kernel on the same mesh as `relplot.smECE_sigma`, without its rounding to a grid.
    """
    kernel = _kernel(confidence, width)
    residual = kernel * (confidence - labels)[:, None]
    density = kernel.sum(axis=1)

    def statistic(weights: Floats) -> Floats:
        return np.abs(weights @ residual).sum(axis=1) / (weights @ density)

    return statistic


def own_width_statistic(confidence: Floats, labels: Floats) -> Statistic:
    """smECE of resamples at the width of these rows, which is looked for first."""
    return smece_statistic(confidence, labels, smece_and_width(confidence, labels)[1])


def smece_if_calibrated(confidence: Floats, *, level: float = LEVEL, draws: int = NULL_DRAWS, seed: int = 0) -> float:
    """The smECE that a calibrated forecaster with these confidences stays under with probability `level`.

    Labels are drawn from the confidences themselves, `draws` times. No resampling of rows can tell that an error of
    this size may be none: smECE of finitely many rows is above 0. Each redraw has a kernel width of its own, at which
    its smECE equals itself; as smECE falls with the width, their quantile is the width that equals the quantile of
    the redraws' errors at that width, and is searched for as relplot searches.

    Raises:
        ConfigurationError: fewer than 100 draws, or level outside (0, 1).
    """
    if draws < 100 or not 0.0 < level < 1.0:
        raise ConfigurationError(f"draws={draws} must be at least 100 and level={level} strictly inside (0, 1)")
    residuals = _null_residuals(confidence, draws, seed)
    grid = np.linspace(0.0, 1.0, _GRID)
    rows = np.bincount(np.rint(confidence * (_GRID - 1)).astype(np.intp), minlength=_GRID).astype(np.float64)

    def quantile(width: float) -> float:
        kernel = _kernel(grid, width)
        errors = np.abs(residuals @ kernel).sum(axis=1) / (rows @ kernel).sum()
        return float(np.quantile(errors, level))

    # Steps of 2^-10, as relplot's.
    narrow, wide = 0, 2**_REFINE
    while wide - narrow > 1:
        middle = (narrow + wide) // 2
        if middle / 2**_REFINE < quantile(middle / 2**_REFINE):
            narrow = middle
        else:
            wide = middle
    return quantile(wide / 2**_REFINE)


def smece_excess(
    confidence: ArrayLike,
    correct: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    seed: int = 0,
    resamples: int = 1000,
    draws: int = NULL_DRAWS,
) -> Estimate:
    """smECE minus the 95th percentile of smECE when labels are redrawn from the confidences; at or below 0 there is no
    sign of miscalibration in these rows. Named `smece_excess`.

    The interval is smECE's own (centred bootstrap, kernel width and percentile held fixed), moved by the percentile.

    Raises:
        BadInput: not probabilities, not labels, lengths differ, groups do not fit, or no rows.
        ConfigurationError: fewer than 100 draws or resamples.
    """
    numbers, labels = check_scored(confidence, correct, probabilities=True)
    value, width = smece_and_width(numbers, labels)
    expected = smece_if_calibrated(numbers, draws=draws, seed=seed)
    found = estimate(
        "smece",
        smece_statistic(numbers, labels, width),
        labels.size,
        undefined="no rows",
        groups=groups,
        seed=seed,
        resamples=resamples,
        method="centred",
    )
    return excess_of(at_relplot(found, value), expected)


def at_relplot(found: Estimate, value: float) -> Estimate:
    """The estimate moved to relplot's own value: its rounding to a grid shifts that by about one per cent."""
    if found.value is None or found.low is None or found.high is None:
        return found.model_copy(update={"value": value})
    low, high = (min(max(end + value - found.value, 0.0), 1.0) for end in (found.low, found.high))
    return found.model_copy(update={"value": value, "low": min(low, value), "high": max(high, value)})


def excess_of(found: Estimate, expected: float) -> Estimate:
    """smECE's estimate, moved by what is expected of a calibrated forecaster."""
    moved = {key: None if end is None else end - expected for key, end in _ends(found).items()}
    return found.model_copy(update={"name": "smece_excess", **moved})


def smece_excess_statistic(confidence: Floats, labels: Floats) -> Statistic:
    """The excess of resamples, at the width and percentile of all rows."""
    inner = own_width_statistic(confidence, labels)
    expected = smece_if_calibrated(confidence)
    return lambda weights: inner(weights) - expected


def _ends(found: Estimate) -> dict[str, float | None]:
    return {"value": found.value, "low": found.low, "high": found.high}


def _null_residuals(confidence: Floats, draws: int, seed: int) -> Floats:
    """Σ of (confidence − redrawn label) at every point of a fine grid, shape (draws, grid)."""
    from scipy.sparse import csr_array

    generator = np.random.default_rng(seed)
    places = np.rint(confidence * (_GRID - 1)).astype(np.intp)
    member = csr_array((np.ones(confidence.size), (np.arange(confidence.size), places)), (confidence.size, _GRID))
    block = max(1, _BLOCK // confidence.size)
    parts = []
    for start in range(0, draws, block):
        drawn = generator.random((min(block, draws - start), confidence.size)) < confidence
        parts.append((confidence - drawn) @ member)
    return np.concatenate(parts)


def _kernel(confidence: Floats, width: float) -> Floats:
    """Reflected Gaussian kernel between rows and mesh, shape (n, mesh)."""
    mesh = np.linspace(0.0, 1.0, min(max(round(10 / width), _MESH), _FINEST_MESH))
    kernel = np.zeros((confidence.size, mesh.size))
    for image in (confidence, -confidence, 2.0 - confidence):
        distance = np.abs(image[:, None] - mesh[None, :])
        kernel += np.where(distance <= _REACH, np.exp(-(distance**2) / (2.0 * width**2)), 0.0)
    return kernel

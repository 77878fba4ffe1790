"""Smooth calibration error (smECE, arXiv 2309.12236), as the paper's own library relplot computes it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..inputs import Floats, check_scored
from .bootstrap import Statistic

# relplot's mesh, and where it stops growing for narrow kernels so that 20,000 rows fit in memory.
_MESH, _FINEST_MESH = 200, 500
# relplot cuts its kernel off here, which shows when it is wide.
_REACH = 0.5
_NULL_DRAWS = 200


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


def smece_if_calibrated(confidence: Floats, width: float, *, level: float = 0.95, seed: int = 0) -> float:
    """The smECE that a calibrated forecaster with these confidences stays under with probability `level`.

    Labels are drawn from the confidences themselves. No resampling of rows can tell that an error of this size may
    be none: smECE of finitely many rows is above 0.
    """
    kernel = _kernel(confidence, width)
    drawn = np.random.default_rng(seed).random((_NULL_DRAWS, confidence.size)) < confidence
    errors = np.abs((confidence - drawn) @ kernel).sum(axis=1) / kernel.sum()
    return float(np.quantile(errors, level))


def _kernel(confidence: Floats, width: float) -> Floats:
    """Reflected Gaussian kernel between rows and mesh, shape (n, mesh)."""
    mesh = np.linspace(0.0, 1.0, min(max(round(10 / width), _MESH), _FINEST_MESH))
    kernel = np.zeros((confidence.size, mesh.size))
    for image in (confidence, -confidence, 2.0 - confidence):
        distance = np.abs(image[:, None] - mesh[None, :])
        kernel += np.where(distance <= _REACH, np.exp(-(distance**2) / (2.0 * width**2)), 0.0)
    return kernel

"""Standardise, then principal components: what probes on hidden vectors learn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1)
"""Inverse strengths C that cross-validation chooses from, and the one without it."""

DEFAULT_STRENGTH = 1e-2


@dataclass(frozen=True)
class Reduction:
    """reduced = ((x - mean) / scale) @ basis.T.

    Attributes:
        mean, scale: (width,); a constant column has scale 1.
        basis: (components, width).
    """

    mean: Floats
    scale: Floats
    basis: Floats


def fit_reduction(x: Floats, components: int, seed: int, beside: int = 0) -> tuple[Reduction, Floats]:
    """Fit on finite x (n >= 2, width); also gives x reduced. Fewer components where rows or width are fewer.

    Args:
        seed: of the randomised SVD.
        beside: that many columns at the end are standardised and kept as they are, next to the components of the rest.
    """
    from sklearn.decomposition import PCA

    mean = x.mean(axis=0)
    spread = x.std(axis=0)
    scale = np.where(spread > 1e-12, spread, 1.0)
    z = (x - mean) / scale
    main = z[:, : x.shape[1] - beside]
    count = min(components, main.shape[1], len(x) - 1)
    solver = "randomized" if count < min(main.shape) else "full"
    # Single precision halves the time; the components are only a basis.
    settings: dict[str, Any] = {"svd_solver": solver, "random_state": seed, "iterated_power": 2}
    pca = PCA(count, **settings).fit(main.astype(np.float32))
    basis = np.asarray(pca.components_, dtype=np.float64)
    if beside:
        kept = np.hstack([np.zeros((beside, main.shape[1])), np.eye(beside)])
        basis = np.vstack([np.hstack([basis, np.zeros((count, beside))]), kept])
    return Reduction(mean, scale, basis), z @ basis.T

"""Dirichlet calibration (Kull et al., arXiv 1910.12656) of two classes."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from .base import checked_rows
from .beta import Beta, log_parts
from .likelihood import fit_logistic

_MOST = 50.0
_PRECISION = 1.0


class Dirichlet(Beta):
    """logit p = a ln q - b ln(1 - q) + c, q = sigmoid(score), drawn towards q itself (a = b = 1, c = 0).

    With two classes the paper's map is that of beta calibration, and its off-diagonal penalty (ODIR) reaches the
    intercept only: what is pushed out of the off-diagonal weights goes to the free diagonal. So the paper's other
    penalty is taken, the L2 one on the distance to the identity, of strength 1 in units of one row. Deviation: a and b
    are not negative, so that the order of scores stays.
    """

    name: ClassVar[str] = "dirichlet"
    complexity: ClassVar[int] = 4

    def fit(self, scores: ArrayLike, correct: ArrayLike, weights: ArrayLike | None = None) -> Self:
        x, y, w = checked_rows(scores, correct, weights)
        identity = np.array([1.0, 1.0, 0.0])
        theta = fit_logistic(
            np.column_stack([*log_parts(x), np.ones_like(x)]),
            y,
            w,
            start=identity,
            lower=np.array([0.0, 0.0, -_MOST]),
            upper=np.full(3, _MOST),
            prior_mean=identity,
            prior_precision=np.full(3, _PRECISION),
        )
        self.a_, self.b_, self.c_ = (float(value) for value in theta)
        return self

"""Semantic alignment: does the model's last state point where the question points? (arXiv 2510.01237)"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.decision import Stage
from ..core.errors import BadInput, ConfigurationError, NotEnoughLabels
from ..core.evidence import Evidence, Need
from ..core.signal import Signal
from .calibration.base import checked_grades, checked_weights

Floats = NDArray[np.float64]

FEWEST_RIGHT = 20
"""Right rows that a projection is fitted on at least."""

ALPHAS = (1e1, 1e2, 1e3, 1e4, 1e5)
"""Penalties that the fit chooses from by leave-one-out error."""


class SemanticAlignment:
    """s_sem = cos(P h_L, e_ref), in [-1, 1]; higher is surer.

    h_L is the final layer's state at the last prompt token, e_ref the reference embedding. The paper is silent about
    how P is found and what the reference is. Here [proposal]: P is ridge regression from the standardised state to the
    embedding of the *question*, fitted on the rows that were answered right, so that the cosine is high where a
    question is taken up as it was taken up when that went well. The penalty is chosen by leave-one-out error.

    A trap: the rows P was fitted on are right rows and fit best, so their cosines tell the grade. A head must learn
    from `out_of_fold` scores only.

    Args:
        vector: name of h_L in `Captured.hidden`, "prompt_last.L" and the final layer's number.
        reference: name of the question's embedding there, "question." and the encoder's name.
        alpha: ridge penalty above 0; None chooses among `ALPHAS`.
        offset: P may add a constant vector (the mean embedding); the paper writes none, which is `offset=False`.

    Attributes (after `fit`):
        mean_, scale_: (width,); projection_: (width, embedding); offset_: (embedding,); alpha_: float.

    Raises:
        ConfigurationError: names that do not start as they must, or alpha not a number above 0.
    """

    needs = frozenset({Need.HIDDEN_STATES})
    stage = Stage.BEFORE
    cost_rank = 0

    def __init__(self, vector: str, reference: str, *, alpha: float | None = None, offset: bool = True) -> None:
        if not vector.startswith("prompt_last.") or not reference.startswith("question."):
            raise ConfigurationError(
                f"vector {vector!r} must start with 'prompt_last.' and reference {reference!r} with 'question.'"
            )
        if alpha is not None and not (math.isfinite(alpha) and alpha > 0.0):
            raise ConfigurationError(f"alpha={alpha} must be a finite number above 0, or None")
        self.vector, self.reference = vector, reference
        self.alpha, self.offset = alpha, offset
        self.name = f"semantic.{vector}"

    @property
    def signal_names(self) -> tuple[str, ...]:
        return (self.name,)

    def fit(
        self, vectors: ArrayLike, embeddings: ArrayLike, correct: ArrayLike, weights: ArrayLike | None = None
    ) -> SemanticAlignment:
        """Fit on the right ones of vectors (n, width) and embeddings (n, k); rows with NaN are left out.

        Raises:
            BadInput: shapes disagree.
            NotEnoughLabels: fewer than 20 usable right rows.
        """
        from sklearn.linear_model import Ridge, RidgeCV

        x, e = self._blocks(vectors, embeddings)
        right = checked_grades(correct, len(x)) == 1.0
        w = checked_weights(weights, len(x))
        used = right & (w > 0.0) & np.isfinite(x).all(axis=1) & np.isfinite(e).all(axis=1)
        if used.sum() < FEWEST_RIGHT:
            raise NotEnoughLabels(
                f"{self.name}: {int(used.sum())} usable rows were right; {FEWEST_RIGHT} are needed",
                have=int(used.sum()),
                need=FEWEST_RIGHT,
            )
        x, e, w = x[used], e[used], w[used]
        self.mean_, spread = x.mean(axis=0), x.std(axis=0)
        self.scale_ = np.where(spread > 1e-12, spread, 1.0)
        z = (x - self.mean_) / self.scale_
        if self.alpha is None:
            ridge = RidgeCV(ALPHAS, fit_intercept=self.offset).fit(z, e, sample_weight=w)
            self.alpha_ = float(np.asarray(ridge.alpha_))
        else:
            ridge = Ridge(self.alpha, fit_intercept=self.offset).fit(z, e, sample_weight=w)
            self.alpha_ = self.alpha
        width = e.shape[1]
        coefficients = np.asarray(ridge.coef_, dtype=np.float64).reshape(width, -1)
        self.projection_ = np.ascontiguousarray(coefficients.T)
        self.offset_ = np.broadcast_to(np.asarray(ridge.intercept_, dtype=np.float64), (width,)).copy()
        return self

    def scores(self, vectors: ArrayLike, embeddings: ArrayLike) -> Floats:
        """Cosines (n,) of rows; NaN for rows with a value that is not finite, or where a side has no direction.

        Raises:
            BadInput: not fitted, or other shapes than it was fitted on.
        """
        if not hasattr(self, "projection_"):
            raise BadInput(f"{self.name} is not fitted; call fit(vectors, embeddings, correct) first")
        x, e = self._blocks(vectors, embeddings)
        if (x.shape[1], e.shape[1]) != self.projection_.shape:
            raise BadInput(
                f"{self.name}: rows have widths {x.shape[1]} and {e.shape[1]}, fitted on {self.projection_.shape}"
            )
        found = np.full(len(x), np.nan)
        usable = np.isfinite(x).all(axis=1) & np.isfinite(e).all(axis=1)
        projected = ((x[usable] - self.mean_) / self.scale_) @ self.projection_ + self.offset_
        sizes = np.linalg.norm(projected, axis=1) * np.linalg.norm(e[usable], axis=1)
        directed = np.isfinite(sizes) & (sizes > 0.0)
        cosines = np.full(len(sizes), np.nan)
        cosines[directed] = (projected[directed] * e[usable][directed]).sum(axis=1) / sizes[directed]
        found[usable] = np.clip(cosines, -1.0, 1.0)
        return found

    def out_of_fold(
        self,
        vectors: ArrayLike,
        embeddings: ArrayLike,
        correct: ArrayLike,
        folds: NDArray[np.integer],
        weights: ArrayLike | None = None,
    ) -> Floats:
        """(n,) the cosine of each row by a projection fitted on the other folds: what a head learns from.

        Raises:
            BadInput: shapes disagree.
            NotEnoughLabels: a fold leaves fewer than 20 usable right rows to fit on.
        """
        x, e = self._blocks(vectors, embeddings)
        y, w = checked_grades(correct, len(x)), checked_weights(weights, len(x))
        if np.shape(folds) != (len(x),):
            raise BadInput(f"folds have shape {np.shape(folds)}; ({len(x)},) is needed")
        found = np.full(len(x), np.nan)
        for fold in np.unique(folds):
            held_out = folds == fold
            inner = SemanticAlignment(self.vector, self.reference, alpha=self.alpha, offset=self.offset)
            inner.fit(x[~held_out], e[~held_out], y[~held_out], w[~held_out])
            found[held_out] = inner.scores(x[held_out], e[held_out])
        return found

    def measure(self, evidence: Evidence) -> Sequence[Signal]:
        return [self.signal(evidence.captured.hidden if evidence.captured is not None else {})]

    def signal(self, hidden: Mapping[str, NDArray[np.float32]]) -> Signal:
        """The signal from vectors by name."""
        if not hasattr(self, "projection_"):
            return Signal.missing(self.name, "the projection is not fitted")
        for name, width in zip((self.vector, self.reference), self.projection_.shape, strict=True):
            if name not in hidden:
                return Signal.missing(self.name, f"vector {name} was not captured")
            if np.shape(hidden[name]) != (width,):
                return Signal.missing(self.name, f"{name} has shape {np.shape(hidden[name])}, fitted on ({width},)")
        vector, reference = (np.asarray(hidden[name])[None, :] for name in (self.vector, self.reference))
        return Signal.of(self.name, float(self.scores(vector, reference)[0]))

    def to_arrays(self) -> dict[str, Floats]:
        """The fitted state."""
        return {
            "mean": self.mean_,
            "scale": self.scale_,
            "projection": self.projection_,
            "offset": self.offset_,
            "alpha": np.array([self.alpha_]),
        }

    @classmethod
    def from_arrays(cls, vector: str, reference: str, arrays: Mapping[str, Floats]) -> SemanticAlignment:
        """Back from `to_arrays`.

        Raises:
            BadInput: an array is missing, left over, has the wrong shape, or is not finite.
        """
        width, embedding = (arrays[name].size if name in arrays else 0 for name in ("mean", "offset"))
        shapes: dict[str, tuple[int, ...]] = {
            "mean": (width,),
            "scale": (width,),
            "projection": (width, embedding),
            "offset": (embedding,),
            "alpha": (1,),
        }
        if left := sorted(set(arrays) - set(shapes)):
            raise BadInput(f"stored projection {vector}: {left[:5]} belong to nothing")
        for name, shape in shapes.items():
            array = arrays.get(name)
            if array is None or array.shape != shape or array.size == 0 or not np.isfinite(array).all():
                raise BadInput(f"stored projection {vector}: {name} is missing, not of shape {shape}, or not finite")
        if (arrays["scale"] <= 0.0).any() or arrays["alpha"][0] <= 0.0:
            raise BadInput(f"stored projection {vector}: scale and alpha must be above 0")
        probe = cls(vector, reference, alpha=float(arrays["alpha"][0]), offset=bool(arrays["offset"].any()))
        probe.mean_, probe.scale_ = arrays["mean"], arrays["scale"]
        probe.projection_, probe.offset_ = arrays["projection"], arrays["offset"]
        probe.alpha_ = float(arrays["alpha"][0])
        return probe

    def _blocks(self, vectors: ArrayLike, embeddings: ArrayLike) -> tuple[Floats, Floats]:
        x, e = np.asarray(vectors, dtype=np.float64), np.asarray(embeddings, dtype=np.float64)
        if x.ndim != 2 or e.ndim != 2 or len(x) != len(e) or x.shape[1] == 0 or e.shape[1] == 0:
            raise BadInput(f"{self.name}: vectors {x.shape} and embeddings {e.shape} are not (rows, width) each")
        return x, e

"""A linear probe on one hidden vector (in the manner of arXiv 2603.25052: being right is close to linear inside)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.decision import Stage
from ..core.errors import BadInput, ConfigurationError
from ..core.evidence import Evidence, Need
from ..core.signal import Signal
from .calibration.base import checked_grades, checked_weights
from .logistic import choose_strength, fit_coefficients

Floats = NDArray[np.float64]

_GRID = (1e-4, 1e-3, 1e-2, 1e-1)
_DEFAULT_C = 1e-2
_PREFIXES = ("prompt_last.", "answer_mean.", "answer_last.")


class HiddenStateProbe:
    """Standardise, PCA, L2 logistic regression: one logit from one vector.

    The three steps are linear, so the fitted probe is one direction: logit = ((x - mean_) / scale_) . direction_ +
    intercept_. The signal is `hidden.VECTOR` (such as `hidden.answer_mean.L12`), a raw logit: calibration comes later.

    Args:
        vector: a name in `Captured.hidden`; `prompt_last.*` is read before generation, the others after it.
        components: principal components kept (fewer where rows or width are fewer).
        seed: of the randomised SVD.

    Attributes (after `fit`):
        mean_, scale_, direction_: (width,) float64.
        intercept_: float.
        C_: the strength that was chosen.

    Raises:
        ConfigurationError: an unknown kind of vector, or components < 1.
    """

    needs = frozenset({Need.HIDDEN_STATES})
    cost_rank = 0

    def __init__(self, vector: str, *, components: int = 32, seed: int = 0) -> None:
        if not vector.startswith(_PREFIXES):
            raise ConfigurationError(f"vector {vector!r} must start with one of {_PREFIXES}")
        if components < 1:
            raise ConfigurationError(f"components={components} must be at least 1")
        self.vector = vector
        self.components = components
        self.seed = seed
        self.name = f"hidden.{vector}"
        self.stage = Stage.BEFORE if vector.startswith("prompt_last.") else Stage.AFTER

    @property
    def signal_names(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def width(self) -> int:
        """Length of the vector it was fitted on."""
        return self.mean_.size

    def fit(
        self,
        vectors: ArrayLike,
        correct: ArrayLike,
        weights: ArrayLike | None = None,
        folds: NDArray[np.integer] | None = None,
        C: float = _DEFAULT_C,
    ) -> HiddenStateProbe:
        """Fit on vectors (n, width), rows with NaN left out.

        Args:
            folds: (n,) fold numbers to choose the strength by; without them `C` is used.

        Raises:
            BadInput: shapes disagree, or fewer than 2 usable rows or a class is left.
        """
        from sklearn.decomposition import PCA

        x = np.asarray(vectors, dtype=np.float64)
        if x.ndim != 2:
            raise BadInput(f"vectors of {self.vector} have shape {x.shape}; (rows, width) is needed")
        y, w = checked_grades(correct, len(x)), checked_weights(weights, len(x))
        usable = np.isfinite(x).all(axis=1) & (w > 0.0)
        x, y, w = x[usable], y[usable], w[usable]
        if np.unique(y).size < 2:
            raise BadInput(f"{self.vector}: {len(x)} usable rows hold one class only; both are needed")
        self.mean_ = x.mean(axis=0)
        spread = x.std(axis=0)
        self.scale_ = np.where(spread > 1e-12, spread, 1.0)
        z = (x - self.mean_) / self.scale_
        count = min(self.components, x.shape[1], len(x) - 1)
        solver = "randomized" if count < min(x.shape) else "full"
        # Single precision halves the time; the components are only a basis.
        settings: dict[str, Any] = {"svd_solver": solver, "random_state": self.seed, "iterated_power": 2}
        pca = PCA(count, **settings).fit(z.astype(np.float32))
        basis = np.asarray(pca.components_, dtype=np.float64)
        reduced = z @ basis.T
        self.C_ = C if folds is None else choose_strength(reduced, y, w, folds[usable], _GRID)
        coefficients, self.intercept_ = fit_coefficients(reduced, y, w, self.C_)
        self.direction_ = np.ascontiguousarray(coefficients @ basis)
        return self

    def scores(self, vectors: ArrayLike) -> Floats:
        """Logits (n,) of vectors (n, width); NaN for rows with a value that is not finite.

        Raises:
            BadInput: another width than it was fitted on.
        """
        x = np.asarray(vectors, dtype=np.float64)
        if x.ndim != 2 or x.shape[1] != self.width:
            raise BadInput(f"{self.vector} has shape {x.shape}; the probe was fitted on (rows, {self.width})")
        usable = np.isfinite(x).all(axis=1)
        logits = np.full(len(x), np.nan)
        logits[usable] = ((x[usable] - self.mean_) / self.scale_) @ self.direction_ + self.intercept_
        logits[~np.isfinite(logits)] = np.nan
        return logits

    def measure(self, evidence: Evidence) -> Sequence[Signal]:
        hidden = evidence.captured.hidden if evidence.captured is not None else {}
        return [self.signal(hidden)]

    def signal(self, hidden: Mapping[str, NDArray[np.float32]]) -> Signal:
        """The signal from vectors by name."""
        if not hasattr(self, "direction_"):
            return Signal.missing(self.name, "the probe is not fitted")
        vector = hidden.get(self.vector)
        if vector is None:
            return Signal.missing(self.name, f"vector {self.vector} was not captured")
        if np.shape(vector) != (self.width,):
            return Signal.missing(self.name, f"vector has shape {np.shape(vector)}, fitted on ({self.width},)")
        score = float(self.scores(np.asarray(vector)[None, :])[0])
        return Signal.of(self.name, score, missing="not finite")

    def to_arrays(self) -> dict[str, Floats]:
        """The fitted state."""
        return {
            "mean": self.mean_,
            "scale": self.scale_,
            "direction": self.direction_,
            "intercept": np.array([self.intercept_]),
            "C": np.array([self.C_]),
        }

    @classmethod
    def from_arrays(cls, vector: str, arrays: Mapping[str, Floats]) -> HiddenStateProbe:
        """Back from `to_arrays`.

        Raises:
            BadInput: an array is missing, has the wrong shape, or is not finite.
        """
        probe = cls(vector)
        width = arrays["mean"].size if "mean" in arrays else 0
        shapes = {"mean": (width,), "scale": (width,), "direction": (width,), "intercept": (1,), "C": (1,)}
        for name, shape in shapes.items():
            array = arrays.get(name)
            if array is None or array.shape != shape or width == 0 or not np.isfinite(array).all():
                raise BadInput(f"stored probe {vector}: {name} is missing, not of shape {shape}, or not finite")
        if (arrays["scale"] <= 0.0).any():
            raise BadInput(f"stored probe {vector}: scale must be above 0")
        probe.mean_, probe.scale_, probe.direction_ = arrays["mean"], arrays["scale"], arrays["direction"]
        probe.intercept_, probe.C_ = float(arrays["intercept"][0]), float(arrays["C"][0])
        return probe

"""A probe on one vector, linear by default (as in arXiv 2603.25052: being right is close to linear inside)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.decision import Stage
from ..core.errors import BadInput, ConfigurationError
from ..core.evidence import Evidence, Need
from ..core.signal import Signal
from .calibration.base import checked_grades, checked_weights
from .hidden_layer import HiddenLayer, choose_hidden_layer_strength, fit_hidden_layer
from .logistic import choose_strength, fit_coefficients
from .reduction import DEFAULT_STRENGTH, STRENGTHS, fit_reduction

Floats = NDArray[np.float64]

_BEFORE = ("prompt_last.", "question.")
_AFTER = ("answer_mean.", "answer_last.", "answer_text.")
_TEXT_ONLY = ("question.", "answer_text.")
_MOST_UNITS = 1024

LINEAR_PARTS = ("mean", "scale", "direction", "intercept", "C")
HIDDEN_LAYER_PARTS = ("mean", "scale", "hidden_weights", "hidden_bias", "output_weights", "intercept", "C")
"""The arrays of the two kinds of probe, by name."""


class HiddenStateProbe:
    """Standardise, PCA, L2 logistic regression: one logit from one vector.

    The three steps are linear, so the fitted probe is one direction: logit = ((x - mean_) / scale_) . direction_ +
    intercept_. With `hidden_units` a network with one hidden layer stands in place of the regression: logit =
    max(((x - mean_) / scale_) @ layer_.weights + layer_.bias, 0) . layer_.output + intercept_. The signal is
    `hidden.VECTOR` (such as `hidden.answer_mean.L12`), a raw logit (higher is surer): calibration comes later.

    Args:
        vector: a name in `Captured.hidden`. `prompt_last.*` is read before generation, `answer_mean.*` and
            `answer_last.*` after it; `question.*` (before) and `answer_text.*` (after) are embeddings of the texts by a
            sentence encoder, put there by whoever has one; they need nothing of the model but text.
        components: principal components kept (fewer where rows or width are fewer).
        seed: of the randomised SVD, and of a network's starting weights.
        hidden_units: of the one hidden layer; 0 for the linear probe.
        beside: that many values at the vector's end go past the PCA (see `ConcatenatedStates`).

    Attributes (after `fit`):
        mean_, scale_: (width,) float64.
        direction_: (width,) float64, of the linear probe; layer_: of the other.
        intercept_: float.
        C_: the strength that was chosen.

    Raises:
        ConfigurationError: an unknown kind of vector, components < 1, beside < 0, or hidden_units outside [0, 1024].
    """

    cost_rank = 0

    def __init__(
        self, vector: str, *, components: int = 32, seed: int = 0, hidden_units: int = 0, beside: int = 0
    ) -> None:
        if not vector.startswith(_BEFORE + _AFTER):
            raise ConfigurationError(f"vector {vector!r} must start with one of {_BEFORE + _AFTER}")
        if components < 1 or beside < 0:
            raise ConfigurationError(f"components={components} must be at least 1, beside={beside} at least 0")
        if not 0 <= hidden_units <= _MOST_UNITS:
            raise ConfigurationError(
                f"hidden_units={hidden_units} must lie in [0, {_MOST_UNITS}]; 0 is the linear probe"
            )
        self.vector = vector
        self.components = components
        self.seed = seed
        self.hidden_units = hidden_units
        self.beside = beside
        self.name = f"hidden.{vector}"
        self.needs = frozenset({Need.TEXT if vector.startswith(_TEXT_ONLY) else Need.HIDDEN_STATES})
        self.stage = Stage.BEFORE if vector.startswith(_BEFORE) else Stage.AFTER

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
        C: float = DEFAULT_STRENGTH,
    ) -> HiddenStateProbe:
        """Fit on vectors (n, width), rows with NaN left out.

        Args:
            folds: (n,) fold numbers to choose the strength by; without them `C` is used.

        Raises:
            BadInput: shapes disagree, or fewer than 2 usable rows or a class is left.
        """
        x = np.asarray(vectors, dtype=np.float64)
        if x.ndim != 2 or x.shape[1] <= self.beside:
            raise BadInput(
                f"vectors of {self.vector} have shape {x.shape}; (rows, width) is needed, wider than {self.beside}"
            )
        y, w = checked_grades(correct, len(x)), checked_weights(weights, len(x))
        usable = np.isfinite(x).all(axis=1) & (w > 0.0)
        x, y, w = x[usable], y[usable], w[usable]
        if np.unique(y).size < 2:
            raise BadInput(f"{self.vector}: {len(x)} usable rows hold one class only; both are needed")
        reduction, reduced = fit_reduction(x, self.components, self.seed, self.beside)
        self.mean_, self.scale_ = reduction.mean, reduction.scale
        if self.hidden_units:
            self._fit_network(reduced, reduction.basis, y, w, None if folds is None else folds[usable], C)
            return self
        self.C_ = C if folds is None else choose_strength(reduced, y, w, folds[usable], STRENGTHS)
        coefficients, self.intercept_ = fit_coefficients(reduced, y, w, self.C_)
        self.direction_ = np.ascontiguousarray(coefficients @ reduction.basis)
        return self

    def _fit_network(
        self, reduced: Floats, basis: Floats, y: Floats, w: Floats, folds: NDArray[np.integer] | None, C: float
    ) -> None:
        settings = (self.hidden_units, self.seed)
        self.C_ = C if folds is None else choose_hidden_layer_strength(reduced, y, w, folds, STRENGTHS, *settings)
        fitted = fit_hidden_layer(reduced, y, w, self.C_, *settings)
        # The components are linear, so they go into the first layer's weights.
        self.layer_ = HiddenLayer(
            np.ascontiguousarray(basis.T @ fitted.weights), fitted.bias, fitted.output, fitted.intercept
        )
        self.intercept_ = fitted.intercept

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
        z = (x[usable] - self.mean_) / self.scale_
        logits[usable] = self.layer_.log_odds(z) if self.hidden_units else z @ self.direction_ + self.intercept_
        logits[~np.isfinite(logits)] = np.nan
        return logits

    def measure(self, evidence: Evidence) -> Sequence[Signal]:
        hidden = evidence.captured.hidden if evidence.captured is not None else {}
        return [self.signal(hidden)]

    def signal(self, hidden: Mapping[str, NDArray[np.float32]]) -> Signal:
        """The signal from vectors by name."""
        if not hasattr(self, "intercept_"):
            return Signal.missing(self.name, "the probe is not fitted")
        vector = hidden.get(self.vector)
        if vector is None:
            return Signal.missing(self.name, f"vector {self.vector} was not captured")
        if np.shape(vector) != (self.width,):
            return Signal.missing(self.name, f"vector has shape {np.shape(vector)}, fitted on ({self.width},)")
        score = float(self.scores(np.asarray(vector)[None, :])[0])
        return Signal.of(self.name, score, missing="not finite")

    def to_arrays(self) -> dict[str, Floats]:
        """The fitted state: `LINEAR_PARTS`, or with a hidden layer `HIDDEN_LAYER_PARTS`."""
        ends = {"intercept": np.array([self.intercept_]), "C": np.array([self.C_])}
        if self.hidden_units:
            layer = self.layer_
            parts = {"hidden_weights": layer.weights, "hidden_bias": layer.bias, "output_weights": layer.output}
        else:
            parts = {"direction": self.direction_}
        return {"mean": self.mean_, "scale": self.scale_, **parts, **ends}

    @classmethod
    def from_arrays(cls, vector: str, arrays: Mapping[str, Floats]) -> HiddenStateProbe:
        """Back from `to_arrays`; the arrays tell which kind it is.

        Raises:
            BadInput: an array is missing, left over, has the wrong shape, or is not finite.
        """
        width = arrays["mean"].size if "mean" in arrays else 0
        units = arrays["hidden_bias"].size if "hidden_bias" in arrays else 0
        shapes: dict[str, tuple[int, ...]] = {"mean": (width,), "scale": (width,), "intercept": (1,), "C": (1,)}
        if "hidden_weights" in arrays:
            shapes |= {"hidden_weights": (width, units), "hidden_bias": (units,), "output_weights": (units,)}
        else:
            shapes |= {"direction": (width,)}
        if left := sorted(set(arrays) - set(shapes)):
            raise BadInput(f"stored probe {vector}: {left[:5]} belong to nothing")
        for name, shape in shapes.items():
            array = arrays.get(name)
            if array is None or array.shape != shape or array.size == 0 or not np.isfinite(array).all():
                raise BadInput(f"stored probe {vector}: {name} is missing, not of shape {shape}, or not finite")
        if (arrays["scale"] <= 0.0).any():
            raise BadInput(f"stored probe {vector}: scale must be above 0")
        if units > _MOST_UNITS:
            raise BadInput(f"stored probe {vector}: {units} hidden units; at most {_MOST_UNITS} are known")
        probe = cls(vector, hidden_units=units if "hidden_weights" in arrays else 0)
        probe.mean_, probe.scale_ = arrays["mean"], arrays["scale"]
        probe.intercept_, probe.C_ = float(arrays["intercept"][0]), float(arrays["C"][0])
        if probe.hidden_units:
            parts = (arrays["hidden_weights"], arrays["hidden_bias"], arrays["output_weights"])
            probe.layer_ = HiddenLayer(*parts, probe.intercept_)
        else:
            probe.direction_ = arrays["direction"]
        return probe

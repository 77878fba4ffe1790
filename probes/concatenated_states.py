"""All layers' last-token states as one vector, in the manner of LENS (arXiv 2507.23167)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.decision import Stage
from ..core.errors import BadInput, ConfigurationError
from ..core.evidence import Evidence, Need
from ..core.signal import Signal
from .hidden_state import HiddenStateProbe
from .lens import checked_layers
from .reduction import DEFAULT_STRENGTH

Floats = NDArray[np.float64]

StateKind = Literal["prompt_last", "answer_last"]


def concatenated_name(kind: str) -> str:
    """Under which a concatenation is filed among vectors: "prompt_last.all"."""
    return f"{kind}.all"


def concatenate(hidden: Mapping[str, ArrayLike], kind: StateKind, layers: Sequence[int]) -> NDArray[np.float32]:
    """Vectors (width,) each, or blocks (n, width) each, of these layers next to each other, the lowest layer first.

    Put into `Captured.hidden` or `SignalTable.hidden` as `concatenated_name(kind)`, it is read by an ordinary
    `HiddenStateProbe`, which stores as one always did.

    Raises:
        BadInput: a layer's vector is missing, or their shapes disagree.
    """
    names = [f"{kind}.L{layer}" for layer in sorted(layers)]
    lost = [name for name in names if name not in hidden]
    if lost or not names:
        raise BadInput(f"vectors to be concatenated are missing: {', '.join(lost[:10]) or 'no layer was given'}")
    blocks = [np.asarray(hidden[name], dtype=np.float32) for name in names]
    if any(block.ndim not in (1, 2) or block.shape[:-1] != blocks[0].shape[:-1] for block in blocks):
        raise BadInput(
            f"vectors of {kind} have shapes {[block.shape for block in blocks][:10]}, which do not go together"
        )
    return np.concatenate(blocks, axis=-1)


class ConcatenatedStates:
    """Linear head on the principal components of the concatenated states and, where given, on option probabilities.

    LENS reads the last token's states of all layers and the normalised probabilities of a multiple-choice question's
    options, and predicts whether the answer is right [of the paper, only the abstract was read: standardising, PCA and
    L2 strength are those of `HiddenStateProbe`]. The signal is `hidden.prompt_last.all` or `hidden.answer_last.all`, a
    raw logit; higher is surer.

    Args:
        kind: "prompt_last" (read before generation, the paper's last input token) or "answer_last" (after it).
        layers: as in `LensTrace`; all of the model's in the paper.
        options: name of a vector of option probabilities in `Captured.hidden`, in a fixed order; they are divided by
            their sum and go past the PCA. None: no options.
        components, seed, hidden_units: as of `HiddenStateProbe`.

    Attributes (after `fit`):
        head_: the `HiddenStateProbe` on what was put together.

    Raises:
        ConfigurationError: an unknown kind, no layers, a negative one, or one twice; or as of `HiddenStateProbe`.
    """

    needs = frozenset({Need.HIDDEN_STATES})
    cost_rank = 0

    def __init__(
        self,
        kind: StateKind,
        layers: Sequence[int],
        *,
        options: str | None = None,
        components: int = 32,
        seed: int = 0,
        hidden_units: int = 0,
    ) -> None:
        if kind not in get_args(StateKind):
            raise ConfigurationError(f"kind={str(kind)[:40]!r}: use one of {get_args(StateKind)}")
        if options is not None and not options:
            raise ConfigurationError("options='': give the name of a vector, or None")
        self.kind: StateKind = kind
        self.layers = checked_layers(layers, "ConcatenatedStates")
        self.options = options
        self.components, self.seed, self.hidden_units = components, seed, hidden_units
        plain = HiddenStateProbe(concatenated_name(kind), components=components, seed=seed, hidden_units=hidden_units)
        self.name, self.stage = plain.name, plain.stage

    stage: Stage

    @property
    def signal_names(self) -> tuple[str, ...]:
        return (self.name,)

    def fit(
        self,
        hidden: Mapping[str, ArrayLike],
        correct: ArrayLike,
        weights: ArrayLike | None = None,
        folds: NDArray[np.integer] | None = None,
        C: float = DEFAULT_STRENGTH,
    ) -> ConcatenatedStates:
        """Fit on blocks (n, width) by name, such as `SignalTable.hidden`; rows with a value missing are left out.

        Raises:
            BadInput: a block is missing, shapes disagree, or too few usable rows or one class are left.
        """
        joined, beside = self._joined(hidden)
        if joined.ndim != 2:
            raise BadInput(f"vectors of {self.kind} have shape {joined.shape} together; (rows, width) is needed")
        head = HiddenStateProbe(
            concatenated_name(self.kind),
            components=self.components,
            seed=self.seed,
            hidden_units=self.hidden_units,
            beside=beside,
        )
        self.head_ = head.fit(joined, correct, weights, folds, C)
        return self

    def scores(self, hidden: Mapping[str, ArrayLike]) -> Floats:
        """Logits (n,) of blocks (n, width) by name; NaN for rows with a value missing.

        Raises:
            BadInput: not fitted, a block is missing, or shapes are not those of the fit.
        """
        if not hasattr(self, "head_"):
            raise BadInput(f"{self.name} is not fitted; call fit(hidden, correct) first")
        return self.head_.scores(self._joined(hidden)[0])

    def measure(self, evidence: Evidence) -> Sequence[Signal]:
        return [self.signal(evidence.captured.hidden if evidence.captured is not None else {})]

    def signal(self, hidden: Mapping[str, NDArray[np.float32]]) -> Signal:
        """The signal from vectors by name."""
        if not hasattr(self, "head_"):
            return Signal.missing(self.name, "the probe is not fitted")
        try:
            joined, _ = self._joined(hidden)
        except BadInput as error:
            return Signal.missing(self.name, str(error))
        return self.head_.signal({self.head_.vector: joined})

    def to_arrays(self) -> dict[str, Floats]:
        """The fitted state; layers and options are settings and not in it."""
        return self.head_.to_arrays()

    @classmethod
    def from_arrays(
        cls, kind: StateKind, layers: Sequence[int], arrays: Mapping[str, Floats], *, options: str | None = None
    ) -> ConcatenatedStates:
        """Back from `to_arrays`.

        Raises:
            BadInput: as of `HiddenStateProbe.from_arrays`.
        """
        head = HiddenStateProbe.from_arrays(concatenated_name(kind), arrays)
        probe = cls(kind, layers, options=options, hidden_units=head.hidden_units)
        probe.head_ = head
        return probe

    def _joined(self, hidden: Mapping[str, ArrayLike]) -> tuple[NDArray[np.float32], int]:
        """States and normalised options next to each other, and how many options there are."""
        states = concatenate(hidden, self.kind, self.layers)
        if self.options is None:
            return states, 0
        if self.options not in hidden:
            raise BadInput(f"option probabilities {self.options!r} are missing")
        shares = _normalised(np.asarray(hidden[self.options], dtype=np.float64))
        if shares.ndim == 0 or shares.shape[:-1] != states.shape[:-1] or shares.size == 0:
            raise BadInput(f"{self.options!r} has shape {shares.shape}, the states {states.shape}")
        return np.concatenate([states, shares.astype(np.float32)], axis=-1), shares.shape[-1]


def _normalised(probabilities: Floats) -> Floats:
    """Divided by their sum over the options; NaN where that is no distribution."""
    if probabilities.ndim == 0:
        return probabilities
    total = probabilities.sum(axis=-1, keepdims=True)
    usable = (probabilities >= 0.0).all(axis=-1, keepdims=True) & np.isfinite(total) & (total > 0.0)
    return np.where(usable, probabilities / np.where(usable, total, 1.0), np.nan)

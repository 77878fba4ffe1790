"""The key in which episodes are compared: what told right from wrong on this bank counts most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.errors import BadInput
from ..probes.logistic import fit_coefficients

Floats = NDArray[np.float64]

COMPONENTS = 30
_L2 = 1e-2


@dataclass(frozen=True)
class Experience:
    """A bank of graded episodes as arrays.

    Attributes:
        questions: (n, d) unit embeddings of the questions.
        confidence: (n,) the confidence at the time, in [0, 1]; NaN where there was none.
        answer_lengths: (n,) characters of the answers.
        correct: (n,) of 0.0 and 1.0.
    """

    questions: NDArray[np.float32]
    confidence: Floats
    answer_lengths: Floats
    correct: Floats

    def __post_init__(self) -> None:
        n = len(self.questions)
        for name in ("confidence", "answer_lengths", "correct"):
            if getattr(self, name).shape != (n,):
                raise BadInput(f"{n} questions came with {name} of shape {getattr(self, name).shape}; ({n},) is needed")

    def __len__(self) -> int:
        return len(self.questions)

    def take(self, rows: NDArray[np.integer] | NDArray[np.bool_] | slice) -> Experience:
        """Some of them."""
        return Experience(self.questions[rows], self.confidence[rows], self.answer_lengths[rows], self.correct[rows])

    def joined(self, other: Experience) -> Experience:
        """These and then those."""
        return Experience(
            np.vstack([self.questions, other.questions]),
            np.r_[self.confidence, other.confidence],
            np.r_[self.answer_lengths, other.answer_lengths],
            np.r_[self.correct, other.correct],
        )


class RecallKey:
    """Features, z-scored and weighed by how much each told on the bank (XConf, arXiv 2609.17708).

    F = [PCA30(question embedding), confidence, log1p(answer length)]; z-scores and PCA from the bank alone; an L2
    logistic regression for correctness (l2 1e-2) gives w; the key is z·|w| / max|w|, at unit length.

    Deviations from the paper: the fused confidence stands where it has the stated one, and the answer's length where
    it has the lengths of reasoning and reflection (both come with reflection, which is not elicited here). With one
    class only, or fewer than 10 episodes, nothing can be weighed and every feature counts alike.
    """

    def __init__(self, *, components: int = COMPONENTS) -> None:
        self.components = components

    def fit(self, bank: Experience) -> RecallKey:
        """Fit on n ≥ 1 episodes.

        Raises:
            BadInput: an empty bank.
        """
        if len(bank) == 0:
            raise BadInput("a recall key needs at least one episode")
        from threadpoolctl import threadpool_limits

        # The matrices are small: a second BLAS thread costs more than it brings, and sums in another order.
        with threadpool_limits(1):
            self._fit(bank)
        return self

    def _fit(self, bank: Experience) -> None:
        from scipy.linalg import eigh

        questions = np.asarray(bank.questions, dtype=np.float64)
        self.centre_ = questions.mean(axis=0)
        count = min(self.components, len(bank) - 1, questions.shape[1])
        covariance = np.cov(questions - self.centre_, rowvar=False) if len(bank) > 1 else np.zeros((1, 1))
        if count > 0:
            width = questions.shape[1]
            _, vectors = eigh(np.atleast_2d(covariance), subset_by_index=(width - count, width - 1))
            axes = vectors[:, ::-1]
            # The sign of an eigenvector is arbitrary: fix it, so that the same bank gives the same key.
            self.axes_ = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(count)])
        else:
            self.axes_ = np.zeros((questions.shape[1], 0))
        known = bank.confidence[np.isfinite(bank.confidence)]
        self.usual_ = float(known.mean()) if known.size else 0.5
        features = self._features(bank)
        self.mean_ = features.mean(axis=0)
        spread = features.std(axis=0)
        self.spread_ = np.where(spread > 1e-9, spread, np.inf)  # a feature that never differs says nothing
        scaled = (features - self.mean_) / self.spread_
        self.weight_ = np.ones(features.shape[1])
        if len(bank) >= 10 and 0.0 < bank.correct.mean() < 1.0:
            coefficients, _ = fit_coefficients(scaled, bank.correct, np.ones(len(bank)), 1.0 / (_L2 * len(bank)))
            if np.abs(coefficients).max() > 1e-9:
                self.weight_ = np.abs(coefficients) / np.abs(coefficients).max()

    def transform(self, rows: Experience) -> Floats:
        """(n, k) keys at unit length; a row that lies at the very centre has no direction and is all zeros."""
        keys = (self._features(rows) - self.mean_) / self.spread_ * self.weight_
        lengths = np.linalg.norm(keys, axis=1, keepdims=True)
        return np.divide(keys, lengths, out=np.zeros_like(keys), where=lengths > 1e-12)

    def _features(self, rows: Experience) -> Floats:
        projected = (np.asarray(rows.questions, dtype=np.float64) - self.centre_) @ self.axes_
        confidence = np.where(np.isfinite(rows.confidence), rows.confidence, self.usual_)
        return np.column_stack([projected, confidence, np.log1p(rows.answer_lengths)])

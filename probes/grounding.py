"""Is the answer in what was retrieved?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from ..core.decision import Stage
from ..core.errors import ConfigurationError
from ..core.evidence import Document, Evidence, Need
from ..core.response import TokenTrace
from ..core.signal import Signal
from ..core.words import words
from .copied import ARTICLES, copied_support

_ROUNDING = 0.01
"""bfloat16 can put log-probabilities this far above zero."""


class GroundingProbe:
    """IDF-weighted token recall of the answer in the best retrieved document (after RGV, arXiv 2608.24024).

    Log-probabilities of tokens that are copied from retrieved text are inflated; this asks the documents instead.
    With A the distinct words of the answer (case folded, no punctuation, no articles) that the question does not
    hold, and D a document's words:

        grounding.recall = max over D of Σ_{w ∈ A ∩ D} idf(w) / Σ_{w ∈ A} idf(w), in [0, 1]
        grounding.retrieval_margin = best document's score minus the second best's, on the retriever's own scale
        grounding.similarity = largest cosine of question and document, where the retriever tells it
            (`metadata["retrieval"]["cosine"]`, as the built-in one does); is what was found about the question at all?
        grounding.adjusted_logprob = mean over the answer's content tokens of a score in nats: of a token that was
            copied, ln of the documents' support of its word (`copied.copied_support`); of every other token, the
            model's own log-probability. [proposal: of RGV, which ranks whole answers, only the abstract was read]
        grounding.copied_share = share of the content tokens that were copied, in [0, 1]

    The last two need the trace with its token strings, which are aligned to words by their characters. The own
    log-probability of a copied token is not used, so it may be missing; one that is missing elsewhere makes
    `grounding.adjusted_logprob` unavailable.

    Args:
        idf: weights (positive, finite) of words over a corpus; a word it does not know gets the largest of them.
            None: idf(w) = ln(1 + (N − n + ½)/(n + ½)) over the N retrieved documents themselves, n of which hold w;
            with so few documents it mostly says that words found nowhere weigh most.

    Raises:
        ConfigurationError: `idf` is empty or holds a weight that is not a positive finite number.
    """

    name = "grounding"
    needs = frozenset({Need.TEXT, Need.DOCUMENTS})
    stage = Stage.AFTER
    cost_rank = 0
    signal_names = (
        "grounding.recall",
        "grounding.retrieval_margin",
        "grounding.similarity",
        "grounding.adjusted_logprob",
        "grounding.copied_share",
    )

    def __init__(self, *, idf: Mapping[str, float] | None = None) -> None:
        if idf is not None:
            if not idf:
                raise ConfigurationError("idf is empty; leave it out to weigh words over the retrieved documents")
            for word, weight in idf.items():
                if not (math.isfinite(weight) and weight > 0.0):
                    raise ConfigurationError(f"idf[{word!r}] = {weight} must be a positive finite number")
        self.idf = None if idf is None else dict(idf)

    def measure(self, evidence: Evidence) -> Sequence[Signal]:
        """The signals, `Unavailable` where there is nothing to measure."""
        if not evidence.documents:
            return tuple(Signal.missing(name, "no documents were retrieved") for name in self.signal_names)
        documents = [set(words(document.text)) for document in evidence.documents]
        return (
            self._recall(evidence, documents),
            _margin(evidence.documents),
            _similarity(evidence.documents),
            *self._adjusted(evidence, documents),
        )

    def _recall(self, evidence: Evidence, documents: Sequence[set[str]]) -> Signal:
        name = "grounding.recall"
        if evidence.response is None or not evidence.response.text.strip():
            return Signal.missing(name, "there is no answer text")
        asked = set(words(evidence.call.question))
        answered = sorted(set(words(evidence.response.text)) - asked - ARTICLES)
        if not answered:
            return Signal.missing(name, "the answer has no word that the question does not have")
        weights = self._weights(answered, documents)
        total = math.fsum(weights.values())
        best = max(math.fsum(weights[word] for word in answered if word in found) for found in documents)
        return Signal.of(name, best / total)

    def _adjusted(self, evidence: Evidence, documents: Sequence[set[str]]) -> tuple[Signal, Signal]:
        adjusted, share = "grounding.adjusted_logprob", "grounding.copied_share"
        trace = evidence.response.trace if evidence.response is not None else None
        if trace is None or not trace.tokens or not trace.answer_positions:
            reason = _lacking(trace)
            return Signal.missing(adjusted, reason), Signal.missing(share, reason)
        asked = set(words(evidence.call.question))
        copied = copied_support(trace, asked, documents, lambda answered: self._weights(answered, documents))
        told = Signal.of(share, len(copied) / len(trace.answer_positions))
        scores = []
        for position in trace.answer_positions:
            own = trace.logprobs[position]
            if position not in copied and (own is None or not math.isfinite(own) or own > _ROUNDING):
                return Signal.missing(adjusted, f"log-probability of token {position} is {own}"), told
            scores.append(copied.get(position, own))
        return Signal.of(adjusted, math.fsum(scores) / len(scores)), told

    def _weights(self, answered: Sequence[str], documents: Sequence[set[str]]) -> dict[str, float]:
        if self.idf is not None:
            unknown = max(self.idf.values())
            return {word: self.idf.get(word, unknown) for word in answered}
        holders = Counter(word for found in documents for word in found)
        count = len(documents)
        return {word: math.log1p((count - holders[word] + 0.5) / (holders[word] + 0.5)) for word in answered}


def _lacking(trace: TokenTrace | None) -> str:
    if trace is None:
        return "there is no token trace"
    return "the answer span is empty" if trace.tokens else "the trace has no token strings"


def _margin(documents: Sequence[Document]) -> Signal:
    name = "grounding.retrieval_margin"
    if len(documents) < 2:
        return Signal.missing(name, "one document has no margin over a second")
    scores = [document.score for document in documents]
    known = [score for score in scores if score is not None and math.isfinite(score)]
    if len(known) < len(scores):
        return Signal.missing(name, f"{len(scores) - len(known)} of {len(scores)} documents have no finite score")
    first, second = sorted(known, reverse=True)[:2]
    return Signal.of(name, first - second)


def _similarity(documents: Sequence[Document]) -> Signal:
    name = "grounding.similarity"
    told = [document.metadata.get("retrieval") for document in documents]
    cosines = [each.get("cosine") for each in told if isinstance(each, Mapping)]
    known = [float(value) for value in cosines if isinstance(value, int | float) and not isinstance(value, bool)]
    if not known:
        return Signal.missing(name, "the retriever tells no cosine")
    return Signal.of(name, max(known))

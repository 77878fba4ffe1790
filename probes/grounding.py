"""Is the answer in what was retrieved?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from ..core.decision import Stage
from ..core.errors import ConfigurationError
from ..core.evidence import Document, Evidence, Need
from ..core.signal import Signal
from ..core.words import words

_ARTICLES = frozenset({"a", "an", "the"})


class GroundingProbe:
    """IDF-weighted token recall of the answer in the best retrieved document (after RGV, arXiv 2608.24024).

    Log-probabilities of tokens that are copied from retrieved text are inflated; this asks the documents instead.
    With A the distinct words of the answer (case folded, no punctuation, no articles) that the question does not
    hold, and D a document's words:

        grounding.recall = max over D of Σ_{w ∈ A ∩ D} idf(w) / Σ_{w ∈ A} idf(w), in [0, 1]
        grounding.retrieval_margin = best document's score minus the second best's, on the retriever's own scale
        grounding.similarity = largest cosine of question and document, where the retriever tells it
            (`metadata["retrieval"]["cosine"]`, as the built-in one does); is what was found about the question at all?

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
    signal_names = ("grounding.recall", "grounding.retrieval_margin", "grounding.similarity")

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
        return (self._recall(evidence), _margin(evidence.documents), _similarity(evidence.documents))

    def _recall(self, evidence: Evidence) -> Signal:
        name = "grounding.recall"
        if evidence.response is None or not evidence.response.text.strip():
            return Signal.missing(name, "there is no answer text")
        asked = set(words(evidence.call.question))
        answered = sorted(set(words(evidence.response.text)) - asked - _ARTICLES)
        if not answered:
            return Signal.missing(name, "the answer has no word that the question does not have")
        documents = [set(words(document.text)) for document in evidence.documents]
        weights = self._weights(answered, documents)
        total = math.fsum(weights.values())
        best = max(math.fsum(weights[word] for word in answered if word in found) for found in documents)
        return Signal.of(name, best / total)

    def _weights(self, answered: Sequence[str], documents: Sequence[set[str]]) -> dict[str, float]:
        if self.idf is not None:
            unknown = max(self.idf.values())
            return {word: self.idf.get(word, unknown) for word in answered}
        holders = Counter(word for found in documents for word in found)
        count = len(documents)
        return {word: math.log1p((count - holders[word] + 0.5) / (holders[word] + 0.5)) for word in answered}


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

"""Does what was retrieved contradict the answer? Do further samples contradict each other?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations

from ..core.decision import Stage
from ..core.errors import ConfigurationError
from ..core.evidence import Evidence, Need
from ..core.signal import Direction, Signal
from .nli import Nli, Pair, transformers_nli

__all__ = ["ContradictionProbe", "Nli", "transformers_nli"]

_ROUNDING = 1e-3
Triple = tuple[float, float, float]


class ContradictionProbe:
    """Contradiction and entailment by a model for natural language inference that is handed in.

        evidence.contradiction = max over documents of P(document contradicts the answer), in [0, 1]
        evidence.entailment = max over documents of P(document entails the answer), in [0, 1]
        samples.contradiction = mean over ordered pairs of `Evidence.samples` of P(one contradicts the other), in
            [0, 1]; 1 minus it is the consistency of PCC (arXiv 2601.02574) [proposal: over the answers as given]

    A sentence is the question and the answer, "Who wrote Emma? Jane Austen": inference models judge statements, and a
    name by itself states nothing. All pairs are judged in one call of `nli`, each once.

    Args:
        nli: such as `transformers_nli(folder)`.
        with_question: False: the answers by themselves, where they are whole sentences.
        most_samples: so many samples are compared, the first; their pairs grow with the square.

    Raises:
        ConfigurationError: `nli` cannot be called, or most_samples < 2.
    """

    name = "contradiction"
    needs = frozenset({Need.TEXT})
    stage = Stage.AFTER
    cost_rank = 1
    signal_names = ("evidence.contradiction", "evidence.entailment", "samples.contradiction")

    def __init__(self, nli: Nli, *, with_question: bool = True, most_samples: int = 10) -> None:
        if not callable(nli):
            raise ConfigurationError(f"nli={nli!r} cannot be called; use transformers_nli(folder)")
        if most_samples < 2:
            raise ConfigurationError(f"most_samples={most_samples}: two are needed to contradict each other")
        self.nli = nli
        self.with_question = with_question
        self.most_samples = most_samples

    def measure(self, evidence: Evidence) -> Sequence[Signal]:
        """The signals, `Unavailable` where there is nothing to compare or a judgement is not a probability."""
        of_documents, no_documents = self._of_documents(evidence)
        of_samples, no_samples = self._of_samples(evidence)
        judged, problem = self._judged([*of_documents, *of_samples])
        contradiction, entailment, among = self.signal_names
        no_documents, no_samples = no_documents or problem, no_samples or problem
        if no_documents:
            said = [Signal.missing(contradiction, no_documents), Signal.missing(entailment, no_documents)]
        else:
            triples = [judged[pair] for pair in of_documents]
            said = [
                Signal.of(contradiction, max(triple[2] for triple in triples), Direction.LOWER_IS_SURER),
                Signal.of(entailment, max(triple[0] for triple in triples), Direction.HIGHER_IS_SURER),
            ]
        if no_samples:
            return [*said, Signal.missing(among, no_samples)]
        mean = math.fsum(judged[pair][2] for pair in of_samples) / len(of_samples)
        return [*said, Signal.of(among, mean, Direction.LOWER_IS_SURER)]

    def _of_documents(self, evidence: Evidence) -> tuple[list[Pair], str]:
        """A pair for each document, or why there is none."""
        if not evidence.documents:
            return [], "no documents were retrieved"
        if evidence.response is None or not evidence.response.text.strip():
            return [], "there is no answer text"
        answer = self._statement(evidence, evidence.response.text)
        texts = [document.text for document in evidence.documents if document.text.strip()]
        return [(text, answer) for text in texts], "" if texts else "the documents hold no text"

    def _of_samples(self, evidence: Evidence) -> tuple[list[Pair], str]:
        """A pair for each ordered pair of samples, or why there is none."""
        samples = evidence.samples[: self.most_samples]
        if len(samples) < 2:
            return [], f"{len(samples)} samples cannot contradict each other"
        empty = [place for place, sample in enumerate(samples) if not sample.text.strip()]
        if empty:
            return [], f"sample {empty[0]} has no text"
        return list(permutations([self._statement(evidence, sample.text) for sample in samples], 2)), ""

    def _statement(self, evidence: Evidence, answer: str) -> str:
        said = answer.strip()
        return f"{evidence.call.question.strip()} {said}".strip() if self.with_question else said

    def _judged(self, pairs: Sequence[Pair]) -> tuple[dict[Pair, Triple], str]:
        """The judgement of each distinct pair, or what is wrong with the first bad one."""
        distinct = list(dict.fromkeys(pairs))
        if not distinct:
            return {}, ""
        given = self.nli(distinct)
        if len(given) != len(distinct):
            return {}, f"nli gave {len(given)} judgements for {len(distinct)} pairs"
        found: dict[Pair, Triple] = {}
        for pair, row in zip(distinct, given, strict=True):
            values = [float(value) for value in row]
            # `not <=` catches NaN, too
            if len(values) != 3 or not abs(sum(values) - 1.0) <= _ROUNDING or min(values) < 0.0:
                return {}, f"nli gave {values[:5]}, not the probabilities of entailment, neutral and contradiction"
            found[pair] = (values[0], values[1], values[2])
        return found, ""

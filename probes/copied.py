"""Which tokens of an answer were copied from the documents, and how well the documents support each of them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from ..core.response import TokenTrace
from ..core.words import word_spans

ARTICLES = frozenset({"a", "an", "the"})
"""In every document, and evidence of nothing."""


def word_positions(tokens: Sequence[str]) -> list[tuple[str, tuple[int, ...]]]:
    """The words of the text that the tokens make, each with the positions of the tokens it takes a character from."""
    ends = list(accumulate(len(token) for token in tokens))
    found = []
    for word, start, end in word_spans("".join(tokens)):
        first, last = bisect_right(ends, start), bisect_right(ends, end - 1)
        found.append((word, tuple(at for at in range(first, last + 1) if tokens[at])))
    return found


def copied_support(
    trace: TokenTrace,
    asked: set[str],
    documents: Sequence[set[str]],
    weigh: Callable[[Sequence[str]], Mapping[str, float]],
) -> dict[int, float]:
    """Natural log of the documents' support, in (-inf, 0], by position of each copied content token.

    With A the distinct words that content tokens touch, without articles and the question's own words, and idf their
    weights: a document D carries R(D) = Σ_{w ∈ A ∩ D} idf(w) / Σ_{w ∈ A} idf(w) of the answer. A word of A that some
    document holds is copied; its support is the largest R(D) of a document that holds it, so a word taken from the
    passage that has the whole answer has support 1, and one that stands in a passage beside nothing else of the
    answer little more than its own weight. A token is copied where every word that it touches is (at least one), and
    has the smallest support of them.

    Args:
        trace: with token strings.
        asked: the question's words.
        documents: each document's words.
        weigh: positive weights of words.
    """
    content = frozenset(trace.answer_positions)
    touched: dict[int, list[str]] = {}
    for word, positions in word_positions(trace.tokens):
        for position in content.intersection(positions):
            touched.setdefault(position, []).append(word)
    answered = sorted({word for said in touched.values() for word in said} - asked - ARTICLES)
    if not answered:
        return {}
    weights = weigh(answered)
    total = math.fsum(weights.values())
    carried = [math.fsum(weights[word] for word in answered if word in found) / total for found in documents]
    support = {
        word: max(share for share, found in zip(carried, documents, strict=True) if word in found)
        for word in answered
        if any(word in found for found in documents)
    }
    return {
        position: min(0.0, *(math.log(support[word]) for word in said))
        for position, said in touched.items()
        if all(word in support for word in said)
    }

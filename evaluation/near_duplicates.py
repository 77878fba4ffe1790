"""Groups of questions that are the same but for wording: what must not be split between fitting and testing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..core.errors import BadInput, ConfigurationError
from .text import normalise

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = ["normalise", "question_groups"]

_NGRAMS = (3, 5)
_BLOCK = 512
# Rounding must not part a text from itself at threshold 1.
_ROUNDING = 1e-9


def question_groups(questions: Sequence[str], threshold: float = 0.9) -> NDArray[np.int64]:
    """A group number for every question, shape (n,), counted in order of first appearance.

    Two questions are linked when their normal forms are equal, or when the cosine of their character n-gram TF-IDF
    vectors (3 to 5 characters inside words, weights from these questions alone) is at least `threshold`; groups are
    the connected components. A blank question is a group of its own; one of punctuation alone is compared as it stands.

    Args:
        threshold: in (0, 1]; 1 joins only what has the same n-grams.

    Raises:
        ConfigurationError: threshold outside (0, 1].
        BadInput: a question is not a string.
    """
    if not 0.0 < threshold <= 1.0:
        raise ConfigurationError(f"threshold={threshold} must lie in (0, 1]")
    for index, question in enumerate(questions):
        if not isinstance(question, str):
            raise BadInput(f"questions[{index}] is {question!r}, not a string")
    keys: dict[str | int, int] = {}
    positions = np.array([keys.setdefault(_key(i, q), len(keys)) for i, q in enumerate(questions)], dtype=np.int64)
    texts = [(place, key) for key, place in keys.items() if isinstance(key, str)]
    labels = _components([text for _, text in texts], threshold)
    groups = np.arange(len(keys), dtype=np.int64)
    places = np.array([place for place, _ in texts], dtype=np.int64)
    if places.size:
        # Each component goes by its earliest member, so that the numbers below follow first appearance.
        earliest = np.full(int(labels.max()) + 1, len(keys), dtype=np.int64)
        np.minimum.at(earliest, labels, places)
        groups[places] = earliest[labels]
    return np.unique(groups[positions], return_inverse=True)[1].astype(np.int64)


def _key(index: int, question: str) -> str | int:
    """What identical questions share; a blank question's own index."""
    return normalise(question) or question.strip() or index


def _components(texts: list[str], threshold: float) -> NDArray[np.intp]:
    """Connected components of distinct normal forms under cosine >= threshold."""
    if len(texts) < 2:
        return np.zeros(len(texts), dtype=np.intp)
    from scipy.sparse import coo_array, csr_matrix
    from scipy.sparse.csgraph import connected_components
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectors = TfidfVectorizer(analyzer="char_wb", ngram_range=_NGRAMS, lowercase=False, sublinear_tf=True)
    matrix = csr_matrix(vectors.fit_transform(texts))
    links = [np.stack(pair) for pair in _linked(matrix, threshold)]
    rows, columns = np.concatenate(links, axis=1)
    graph = coo_array((np.ones(rows.size), (rows, columns)), shape=(len(texts), len(texts)))
    return connected_components(graph, directed=False)[1]


def _linked(matrix: csr_matrix, threshold: float) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Pairs of rows with cosine >= threshold, block by block: never more than a block's products at once.

    Only rows that share one of a row's rarest n-grams can reach the threshold: the cosine over the rest is at most
    the norm of the rest, which is below it. The products over these rarest n-grams are few; the pairs found are then
    measured in full.
    """
    prefixes, transposed = _rarest(matrix, threshold), matrix.T.tocsr()
    for start in range(0, matrix.indptr.size - 1, _BLOCK):
        shared = (prefixes[start : start + _BLOCK] @ transposed).tocoo()
        rows, columns = shared.row + start, shared.col
        later = columns > rows
        rows, columns = rows[later], columns[later]
        cosine = np.concatenate(
            [
                np.asarray(
                    matrix[rows[i : i + _BLOCK * 16]].multiply(matrix[columns[i : i + _BLOCK * 16]]).sum(axis=1)
                ).ravel()
                for i in range(0, max(rows.size, 1), _BLOCK * 16)
            ]
        )
        close = cosine >= threshold - _ROUNDING
        yield rows[close], columns[close]


def _rarest(matrix: csr_matrix, threshold: float) -> csr_matrix:
    """Each row's rarest entries, as few as leave a rest of norm below the threshold."""
    rows = np.repeat(np.arange(matrix.indptr.size - 1), np.diff(matrix.indptr))
    counts = np.bincount(matrix.indices)
    # Commonest first within a row: then the running sum of squares is the squared norm of the rest.
    order = np.lexsort((-counts[matrix.indices], rows))
    squares = np.cumsum(matrix.data[order] ** 2)
    before_row = np.concatenate([[0.0], squares])[matrix.indptr[rows]]
    keep = order[squares - before_row >= (threshold - _ROUNDING) ** 2 - _ROUNDING]
    data = np.zeros_like(matrix.data)
    data[keep] = matrix.data[keep]
    pruned = type(matrix)((data, matrix.indices.copy(), matrix.indptr.copy()), shape=matrix.shape)
    pruned.eliminate_zeros()
    return pruned

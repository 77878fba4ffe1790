"""Many decision trees as plain arrays, evaluated together by one numpy function. Nothing is unpickled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import BadInput

Floats = NDArray[np.float64]

LEAF = -1
_DEEPEST = 64
_ROWS_AT_ONCE = 1024

PARTS: dict[str, type] = {
    "roots": np.int32,
    "feature": np.int16,
    "threshold": np.float32,
    "right": np.int32,
    "value": np.float64,
}
"""The arrays of an ensemble and their types."""


@dataclass(frozen=True)
class TreeEnsemble:
    """T binary trees of N nodes in all. A row goes left at a node where its value is at most the threshold.

    The nodes of a tree follow each other in the order of a walk that goes left first, so the left child of node i is
    node i + 1 and is not stored. Values and thresholds are compared in single precision, as scikit-learn's forests do:
    a threshold is rounded down to it, which changes no comparison.

    Attributes:
        roots: (T,) first node of each tree, ascending from 0.
        feature: (N,) the column that is asked, or -1 in a leaf.
        threshold: (N,) 0 in a leaf.
        right: (N,) the right child, counted over all nodes; 0 in a leaf.
        value: (N,) what the tree says here; of an inner node, the mean over the rows that came by while fitting.
        width: columns of the matrix it reads.

    Raises:
        BadInput: an array has another shape or type, is not finite, or the nodes do not form trees of at most 64
            levels.
    """

    roots: NDArray[np.int32]
    feature: NDArray[np.int16]
    threshold: NDArray[np.float32]
    right: NDArray[np.int32]
    value: Floats
    width: int

    def __post_init__(self) -> None:
        for name, dtype in PARTS.items():
            array = getattr(self, name)
            shape = self.roots.shape if name == "roots" else self.feature.shape
            if array.dtype != dtype or array.ndim != 1 or array.shape != shape or array.size == 0:
                raise BadInput(f"trees: {name} is {array.dtype} {array.shape}; {np.dtype(dtype)} {shape} is needed")
        if not np.isfinite(self.threshold).all() or not np.isfinite(self.value).all():
            raise BadInput("trees: a threshold or value is not finite")
        object.__setattr__(self, "_depth", self._checked_depth())

    def __len__(self) -> int:
        """Number of trees."""
        return self.roots.size

    @property
    def depth(self) -> int:
        """Levels below the roots."""
        return int(getattr(self, "_depth"))  # noqa: B009 - set behind a frozen dataclass

    def _checked_depth(self) -> int:
        nodes, roots = self.feature.size, self.roots.astype(np.int64)
        if roots[0] != 0 or (np.diff(roots) <= 0).any() or roots[-1] >= nodes:
            raise BadInput(f"trees: roots must ascend from 0 within {nodes} nodes")
        if (self.feature < LEAF).any() or (self.feature >= self.width).any():
            raise BadInput(f"trees: a node asks for a column outside the {self.width} that there are")
        inner = np.flatnonzero(self.feature != LEAF)
        right = self.right.astype(np.int64)
        ends = np.append(roots[1:], nodes)[np.searchsorted(roots, inner, side="right") - 1]
        # Children come after their parent and within its tree, so no walk goes round in circles or strays.
        if (right[inner] <= inner + 1).any() or (right[inner] >= ends).any():
            raise BadInput("trees: a right child does not come after the left one within its tree")
        parents = np.bincount(np.concatenate([inner + 1, right[inner]]), minlength=nodes)
        expected = np.ones(nodes, dtype=np.int64)
        expected[roots] = 0
        if not np.array_equal(parents, expected):
            raise BadInput("trees: every node but the roots must be the child of exactly one node")
        level, depth = roots, 0
        while True:
            level = level[self.feature[level] != LEAF]
            if level.size == 0:
                return depth
            level, depth = np.concatenate([level + 1, right[level]]), depth + 1
            if depth > _DEEPEST:
                raise BadInput(f"trees: more than {_DEEPEST} levels")

    def sums(self, z: Floats) -> Floats:
        """(n,) sum over the trees of what their leaves say of the rows of z (n, width), finite."""
        found = np.empty(len(z))
        for start in range(0, len(z), _ROWS_AT_ONCE):
            block = slice(start, start + _ROWS_AT_ONCE)
            *_, last = self._walk(z[block])
            found[block] = self.value[last].sum(axis=1)
        return found

    def paths(self, z: Floats) -> tuple[float, Floats]:
        """What moved the sums: the sum over the roots, and (n, width) what each column added to it.

        At every node on a row's path the step of the value to the next node is credited to the column that was asked
        there (Saabas, 2014; of the family that arXiv 1802.03888 discusses). Together they are `sums`.
        """
        parts = np.zeros((len(z), self.width))
        for start in range(0, len(z), _ROWS_AT_ONCE):
            block = slice(start, start + _ROWS_AT_ONCE)
            rows = np.arange(len(z[block]))[:, None] * self.width
            for here, there in pairwise(self._walk(z[block])):
                step = self.value[there] - self.value[here]
                # Where the walk has ended the step is 0, so the column does not matter.
                place = (rows + np.maximum(self.feature[here], 0)).ravel()
                added = np.bincount(place, weights=step.ravel(), minlength=rows.size * self.width)
                parts[block] += added.reshape(rows.size, self.width)
        return float(self.value[self.roots].sum()), parts

    def _walk(self, z: Floats) -> Iterator[NDArray[np.intp]]:
        """The nodes (n, T) where the rows are after 0, 1, ... steps; those at a leaf stay."""
        single = np.asarray(z, dtype=np.float32)
        node = np.broadcast_to(self.roots.astype(np.intp), (len(z), self.roots.size))
        yield node
        for _ in range(self.depth):
            feature = self.feature[node]
            asked = np.take_along_axis(single, np.maximum(feature, 0).astype(np.intp), axis=1)
            below = np.where(asked <= self.threshold[node], node + 1, self.right[node])
            node = np.where(feature == LEAF, node, below)
            yield node

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name; `width` is that of the matrix."""
        return {name: getattr(self, name) for name in PARTS}


def from_forest(model: Any, width: int) -> TreeEnsemble:
    """The trees of a fitted scikit-learn RandomForestClassifier of the classes 0 and 1; values are P(1)."""
    return _joined(
        [
            (
                tree.feature,
                tree.threshold,
                tree.children_left,
                tree.children_right,
                tree.value[:, 0, 1] / tree.value[:, 0, :].sum(axis=1),
            )
            for tree in (one.tree_ for one in model.estimators_)
        ],
        width,
    )


def from_boosting(
    model: Any, width: int, edges: Sequence[NDArray[np.float32]] | None = None
) -> tuple[TreeEnsemble, float]:
    """The trees of a fitted scikit-learn HistGradientBoostingClassifier of two classes, and what it starts from.

    Its own inner nodes hold other values (before shrinkage); here they get the mean of the leaves below them, by rows.

    Args:
        edges: of each column, where the model was fitted on bin numbers: bin b holds the values up to edges[b].
    """
    trees = []
    for (predictor,) in model._predictors:
        nodes = predictor.nodes
        leaf = nodes["is_leaf"].astype(bool)
        left = np.where(leaf, -1, nodes["left"].astype(np.int64))
        right = np.where(leaf, -1, nodes["right"].astype(np.int64))
        value, count = nodes["value"].astype(np.float64), nodes["count"].astype(np.float64)
        for node in np.flatnonzero(~leaf)[::-1]:
            below = [left[node], right[node]]
            value[node] = np.average(value[below], weights=count[below])
        feature = np.where(leaf, LEAF, nodes["feature_idx"].astype(np.int64))
        threshold = nodes["num_threshold"].astype(np.float64)
        if edges is not None:
            asked = np.flatnonzero(~leaf)
            threshold[asked] = [edges[feature[node]][int(threshold[node])] for node in asked]
        trees.append((feature, threshold, left, right, value))
    return _joined(trees, width), float(np.ravel(model._baseline_prediction)[0])


def _joined(trees: Sequence[tuple[Any, Any, Any, Any, Any]], width: int) -> TreeEnsemble:
    sizes = [len(tree[0]) for tree in trees]
    roots = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    rights, features, thresholds = [], [], []
    for root, (feature, threshold, left, right, _) in zip(roots, trees, strict=True):
        inner = np.asarray(left) >= 0
        if not np.array_equal(np.asarray(left)[inner], np.flatnonzero(inner) + 1):
            raise BadInput("trees: scikit-learn's nodes are not in the order of a walk that goes left first")
        rights.append(np.where(inner, np.asarray(right) + root, 0))
        features.append(np.where(inner, feature, LEAF))
        thresholds.append(np.where(inner, rounded_down(np.asarray(threshold, dtype=np.float64)), 0.0))
    return TreeEnsemble(
        roots=roots.astype(np.int32),
        feature=np.concatenate(features).astype(np.int16),
        threshold=np.concatenate(thresholds).astype(np.float32),
        right=np.concatenate(rights).astype(np.int32),
        value=np.concatenate([np.asarray(tree[4], dtype=np.float64) for tree in trees]),
        width=width,
    )


def rounded_down(threshold: Floats) -> NDArray[np.float32]:
    """The largest single-precision number at or below each threshold."""
    near = threshold.astype(np.float32)
    return np.where(near > threshold, np.nextafter(near, np.float32(-np.inf)), near)

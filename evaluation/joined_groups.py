"""Groups that hold several kinds of belonging whole: near-duplicates of a question, turns of one conversation."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import BadInput
from .inputs import check_groups


def joined_groups(*groupings: ArrayLike) -> NDArray[np.intp]:
    """The finest groups that split none of those given: rows are together if a chain of shared groups links them.

    Args:
        groupings: one or more, each of shape (n,).

    Returns:
        Codes 0 … G−1, shape (n,).

    Raises:
        BadInput: none given, lengths differ, or a group is missing.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if not groupings:
        raise BadInput("no grouping is given; give at least one")
    n = np.size(np.asarray(groupings[0]))
    codes = [check_groups(each, n) for each in groupings]
    if len(codes) == 1 or n == 0:
        return codes[0]
    # Rows and groups are nodes; a row is linked to each of its groups.
    starts = np.cumsum([n, *(int(each.max()) + 1 for each in codes)])
    nodes = np.concatenate([each + start for each, start in zip(codes, starts, strict=False)])
    links = coo_array((np.ones(nodes.size), (np.tile(np.arange(n), len(codes)), nodes)), shape=(starts[-1], starts[-1]))
    found = connected_components(links, directed=False)[1][:n]
    return np.unique(found, return_inverse=True)[1].astype(np.intp)

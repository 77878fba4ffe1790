"""Metrics counted within clusters (questions, conversations): the weight of a cluster from those of its rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ...core.errors import BadInput
from ..inputs import Floats


def cluster_weights(codes: NDArray[np.intp], name: str) -> Callable[[Floats], Floats]:
    """From weights of rows, shape (resamples, n), to weights of clusters, shape (resamples, clusters).

    Raises (when called):
        BadInput: rows of one cluster were drawn unequally often, so that what is counted within it is not defined.
    """
    first = np.unique(codes, return_index=True)[1]

    def of(weights: Floats) -> Floats:
        drawn = weights[:, first]
        if not np.array_equal(drawn[:, codes], weights):
            raise BadInput(
                f"rows of one {name} were drawn apart; resample whole {name}s: groups must hold {name}s whole"
            )
        return drawn

    return of

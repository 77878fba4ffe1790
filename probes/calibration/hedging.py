"""Forecasts that no sequence of outcomes can show to be miscalibrated, by drawing (Foster 1999), one game a bin."""

from __future__ import annotations

import numpy as np

_SEED = 1999


class Hedging:
    """F99 in each of `bins` bins of [0, 1], as calibeating uses it (arXiv 2305.00070).

    A bin is cut into `bins` cells. A forecast is the middle of a cell; its record is the mean outcome of the calls that
    got it (its own middle before the first). A cell whose record lies within it is safe, and the safe cell nearest to
    the bin's middle is taken (which one is left open). Otherwise there are neighbours, the record of the left one above
    it and that of the right one below it: one of the two is drawn, with chances by which their errors cancel.

    The draws are a fixed function of how many outcomes were seen, so that the same history gives the same forecasts.

    Attributes:
        plays: (bins, cells, 2) weight and weighted sum of outcomes of every forecast.
    """

    def __init__(self, bins: int) -> None:
        self.bins = bins
        self.plays = np.zeros((bins, bins, 2))
        edges = np.linspace(0.0, 1.0, bins * bins + 1)
        self._left = edges[:-1].reshape(bins, bins)
        self._right = edges[1:].reshape(bins, bins)
        self._middle = (self._left + self._right) / 2.0

    def predict(self, bin: int, seen: int) -> float:
        """The forecast for a call of this bin after `seen` outcomes."""
        return float(self._middle[bin, self._cell(bin, seen)])

    def update(self, bin: int, seen: int, outcome: float, weight: float) -> None:
        """What became of the call that `predict(bin, seen)` was the forecast of."""
        self.plays[bin, self._cell(bin, seen)] += (weight, weight * outcome)

    def _cell(self, bin: int, seen: int) -> int:
        weight, outcomes = self.plays[bin].T
        played = weight > 0.0
        record = np.where(played, outcomes / np.where(played, weight, 1.0), self._middle[bin])
        below, above = self._left[bin] - record, record - self._right[bin]
        # Records below the bin's first cell or above its last are outside what the bin can say: those cells are safe.
        below[0], above[-1] = min(below[0], 0.0), min(above[-1], 0.0)
        safe = np.flatnonzero((below <= 0.0) & (above <= 0.0))
        if safe.size:
            return int(safe[np.argmin(np.abs(safe - (self.bins - 1) / 2.0))])
        left = int(np.flatnonzero((above[:-1] > 0.0) & (below[1:] > 0.0))[0])
        chance_of_left = below[left + 1] / (above[left] + below[left + 1])
        return left if np.random.default_rng([_SEED, bin, seen]).random() < chance_of_left else left + 1

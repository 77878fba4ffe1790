"""Two accuracies on the same few rows: a posterior of their difference, and McNemar's exact test as a check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import ConfigurationError
from ..estimate import Estimate
from ..inputs import Floats, check_labels, check_same_length
from .bivariate_normal import correlation_of, log_density, lower_quadrant

Prior = Literal["copula", "dirichlet"]

# Draws worth fewer even ones than this say too little.
_FEWEST = 30.0
_SMALLEST = 1e-300


@dataclass(frozen=True)
class PairedAccuracy:
    """Attributes:
    difference: accuracy(first) − accuracy(second) on these rows, with the posterior's equal-tailed interval.
    probability_first_better: posterior P(accuracy of the first > accuracy of the second).
    mcnemar: two-sided p-value of McNemar's exact test: the binomial one on the rows where just one is right.
    table: rows with both right, only the first, only the second, neither.
    effective_draws: how many even draws the weighted ones are worth (Kish); the standard error of the probability is
        about √(P(1−P) / effective_draws).
    """

    difference: Estimate
    probability_first_better: float
    mcnemar: float
    table: tuple[int, int, int, int]
    effective_draws: float


def paired_accuracy(
    first_correct: ArrayLike,
    second_correct: ArrayLike,
    *,
    prior: Prior = "copula",
    draws: int = 20_000,
    level: float = 0.95,
    seed: int = 0,
) -> PairedAccuracy:
    """Compare what is right and wrong of two answers to the same rows, without the central limit theorem
    (arXiv 2503.01747); made for fewer than a few hundred rows.

    Priors: "copula" is the paper's: both accuracies uniform (Beta(1, 1)), correct answers tied by a Gaussian copula
    with a uniform correlation; sampled by importance. "dirichlet" is flat on the 2×2 table (a deviation: each accuracy
    is Beta(2, 2) then), sampled exactly.

    Where the paper proposes from its prior, which wastes nearly all draws beyond some 50 rows, half of the proposals
    here come from both accuracies' own posteriors, half from the table's Dirichlet posterior; the weights (balance
    heuristic, Veach & Guibas 1995) make the posterior the same.

    Args:
        first_correct, second_correct: 0 or 1 of the same rows in the same order, shape (n,). Rows are taken as
            independent: with conversations or near-duplicates use a group bootstrap.

    Raises:
        BadInput: not labels, lengths differ, or no rows.
        ConfigurationError: no such prior, a level outside (0, 1), or draws too few (or their weights too uneven).
    """
    from scipy.stats import binomtest

    one, two = check_labels("first_correct", first_correct), check_labels("second_correct", second_correct)
    n = check_same_length(first_correct=one, second_correct=two)
    if prior not in ("copula", "dirichlet") or not 0.0 < level < 1.0 or draws < 1000:
        raise ConfigurationError(
            f"prior={prior!r} must be 'copula' or 'dirichlet', level={level} inside (0, 1), draws={draws} at least 1000"
        )
    counts = np.array([(one * two).sum(), (one * (1 - two)).sum(), ((1 - one) * two).sum(), 0.0])
    counts[3] = n - counts.sum()
    generator = np.random.default_rng(seed)
    differences, weights = (_flat if prior == "dirichlet" else _copula)(counts, draws, generator)
    effective = float(1.0 / (weights**2).sum())
    if effective < _FEWEST:
        raise ConfigurationError(
            f"draws={draws} are worth {effective:.0f} even ones on this table; ask for more, or take prior='dirichlet'"
        )
    low, high = _weighted_quantiles(differences, weights, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    value = float(one.mean() - two.mean())
    both, first_only, second_only, neither = (int(count) for count in counts)
    decided = first_only + second_only
    return PairedAccuracy(
        difference=Estimate(
            name="accuracy_difference", value=value, low=min(low, value), high=max(high, value), n=n, level=level
        ),
        probability_first_better=min(1.0, float(weights[differences > 0.0].sum())),
        mcnemar=float(binomtest(first_only, decided).pvalue) if decided else 1.0,
        table=(both, first_only, second_only, neither),
        effective_draws=effective,
    )


def _flat(counts: Floats, draws: int, generator: np.random.Generator) -> tuple[Floats, Floats]:
    table = generator.dirichlet(counts + 1.0, draws)
    return table[:, 1] - table[:, 2], np.full(draws, 1.0 / draws)


def _copula(counts: Floats, draws: int, generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Differences of accuracy and their weights, which add up to 1, under the copula prior."""
    from scipy.special import gammaln, ndtri
    from scipy.stats import beta

    shapes = [(1.0 + right, 1.0 + counts.sum() - right) for right in (counts[0] + counts[1], counts[0] + counts[2])]
    apart = draws // 2
    # Half: accuracies apart from each other, any correlation. Half: tables, and the correlation that each implies.
    table = generator.dirichlet(counts + 1.0, draws - apart)
    of_table = (table[:, 0] + table[:, 1], table[:, 0] + table[:, 2])
    first, second = (
        _inside(np.concatenate([generator.beta(*shape, apart), more]))
        for shape, more in zip(shapes, of_table, strict=True)
    )
    a, b = ndtri(first), ndtri(second)
    correlation = np.concatenate(
        [generator.uniform(-1.0, 1.0, apart), correlation_of(a[apart:], b[apart:], table[:, 0])]
    )
    both = lower_quadrant(a, b, correlation)
    cells = np.maximum([both, first - both, second - both, 1.0 - first - second + both], _SMALLEST)
    likelihood = counts @ np.log(cells)
    from_apart = beta.logpdf(first, *shapes[0]) + beta.logpdf(second, *shapes[1]) - np.log(2.0)
    constant = gammaln(counts.sum() + 4.0) - gammaln(counts + 1.0).sum()
    from_tables = likelihood + constant + log_density(a, b, correlation)
    log_weights = likelihood - np.logaddexp(from_apart, from_tables)
    weights = np.exp(log_weights - log_weights.max())
    return first - second, weights / weights.sum()


def _inside(shares: NDArray[np.float64]) -> Floats:
    return np.clip(shares, 1e-12, 1.0 - 1e-12)


def _weighted_quantiles(values: Floats, weights: Floats, levels: list[float]) -> tuple[float, float]:
    order = np.argsort(values)
    places = np.searchsorted(np.cumsum(weights[order]), levels)
    low, high = values[order][np.minimum(places, values.size - 1)]
    return float(low), float(high)

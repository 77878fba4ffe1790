"""The posterior of two accuracies on the same rows, against exact values and plain sampling from the prior."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, multivariate_normal

from demur.evaluation.metrics.bivariate_normal import correlation_of, log_density, lower_quadrant
from demur.evaluation.metrics.paired_accuracy import paired_accuracy


def rows(both: int, first: int, second: int, neither: int) -> tuple[list[int], list[int]]:
    return (
        [1] * (both + first) + [0] * (second + neither),
        [1] * both + [0] * first + [1] * second + [0] * neither,
    )


@pytest.mark.parametrize("a", [-2.1, 0.0, 0.7])
@pytest.mark.parametrize("b", [-0.4, 0.0, 1.9])
@pytest.mark.parametrize("correlation", [-0.9, 0.0, 0.35, 0.99])
def test_the_bivariate_normal_is_scipys(a: float, b: float, correlation: float) -> None:
    scipys = multivariate_normal([0.0, 0.0], [[1.0, correlation], [correlation, 1.0]])
    given = (np.array([a]), np.array([b]), np.array([correlation]))
    assert lower_quadrant(*given)[0] == pytest.approx(scipys.cdf([a, b]), abs=1e-7)
    assert log_density(*given)[0] == pytest.approx(scipys.logpdf([a, b]))
    found = correlation_of(given[0], given[1], lower_quadrant(*given))[0]
    # Far out the probability hardly moves with the correlation: what must agree is the probability.
    assert lower_quadrant(given[0], given[1], np.array([found]))[0] == pytest.approx(scipys.cdf([a, b]), abs=1e-7)


@pytest.mark.parametrize("table", [(10, 8, 2, 5), (3, 0, 1, 2), (40, 15, 15, 30)])
def test_the_flat_prior_has_a_beta_for_an_answer(table: tuple[int, int, int, int]) -> None:
    # Of a Dirichlet table, first-only over (first-only + second-only) is Beta(n10 + 1, n01 + 1), apart from the rest:
    # the first is better iff it is above ½.
    found = paired_accuracy(*rows(*table), prior="dirichlet", draws=40_000)
    assert found.probability_first_better == pytest.approx(beta.sf(0.5, table[1] + 1, table[2] + 1), abs=0.01)
    assert found.effective_draws == pytest.approx(40_000)


def test_the_copula_prior_agrees_with_plain_sampling_from_it() -> None:
    """As the paper does it: draw from the prior, weigh by the likelihood of the table."""
    table = np.array([6, 5, 1, 3])
    draw = np.random.default_rng(1)
    first, second = draw.random((2, 400_000))
    from scipy.special import ndtri

    both = lower_quadrant(ndtri(first), ndtri(second), draw.uniform(-1, 1, first.size))
    cells = np.clip([both, first - both, second - both, 1 - first - second + both], 1e-300, 1.0)
    weights = np.exp(table @ np.log(cells) + 30.0)
    weights /= weights.sum()
    assert 1 / (weights**2).sum() > 2000
    better = float(weights[first > second].sum())
    order = np.argsort(first - second)
    low, high = (first - second)[order][np.searchsorted(np.cumsum(weights[order]), [0.025, 0.975])]
    found = paired_accuracy(*rows(*table), draws=40_000)
    assert found.probability_first_better == pytest.approx(better, abs=0.015)
    assert (found.difference.low, found.difference.high) == pytest.approx((low, high), abs=0.02)

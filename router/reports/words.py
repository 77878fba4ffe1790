"""Numbers as people say them: "about 7 in 10", and always of how many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_FEW = 10


def about(right: int, n: int) -> str:
    """A share as a natural frequency: "about 7 in 10", "about 3 in 100", "none", "all"."""
    if n == 0 or right == 0:
        return "none"
    if right == n:
        return "all"
    share = right / n
    twentieths = round(20 * share)
    if 0.045 <= share <= 0.955:
        if twentieths == 10:
            return "about half"
        if twentieths % 5 == 0:
            return f"about {twentieths // 5} in 4"
        return f"about {twentieths // 2} in 10" if twentieths % 2 == 0 else f"about {twentieths} in 20"
    if n < 100:
        return "hardly any" if share < 0.5 else "nearly all"
    hundredths = round(100 * share)
    if hundredths == 0:
        return "fewer than 1 in 100"
    return "more than 99 in 100" if hundredths == 100 else f"about {hundredths} in 100"


def of(part: int, n: int, things: str = "") -> str:
    """The counts, and the share in words: "412 of 600 answers (about 7 in 10)"; of few the counts say enough."""
    if n == 0:
        return "–"
    counts = f"{part:,} of {n:,} {things}".rstrip()
    return counts if part in (0, n) or n < _FEW else f"{counts} ({about(part, n)})"


def answers(n: int) -> str:
    """ "1 answer", "600 answers"."""
    return f"{n:,} answer" if n == 1 else f"{n:,} answers"


def hundred(value: float) -> str:
    """How many in 100, without figures that nobody could tell: "84", "0.4"."""
    number = 100.0 * value
    return f"{number:.1f}" if 0.0 < number < 1.0 else f"{number:.0f}"


def number(value: float | int | None) -> str:
    """A figure in a table."""
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3f}".replace("-", "−")


def interval(low: float | None, high: float | None) -> str:
    """[low, high] in a table."""
    return "–" if low is None or high is None else f"[{number(low)}, {number(high)}]"


def with_interval(row: Mapping[str, Any]) -> str:
    """Value and interval of one row of metrics."""
    if row.get("low") is None or isinstance(row["value"], int):
        return number(row["value"])
    return f"{number(row['value'])} {interval(row['low'], row['high'])}"

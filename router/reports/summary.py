"""The top of the report: what the figures mean, in sentences. Every share comes with its counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...evaluation.metrics.proportion import proportion
from ...evaluation.metrics.smece import smece_if_calibrated
from .judged import Judged
from .words import answers, hundred, of

THRESHOLDS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
_NEAR = 0.05
_FEW = 10
_SMALL = 100
_RARE = 30


@dataclass(frozen=True)
class Point:
    """A question that a reader has, and the answer."""

    question: str
    answer: str


@dataclass(frozen=True)
class AnsweredAbove:
    """What happens if only answers with at least this confidence are given."""

    threshold: float
    answered: int
    right: int
    wrong: int
    withheld_right: int
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Summary:
    """Sentences, the table behind one of them, and what to be careful about."""

    points: tuple[Point, ...]
    above: tuple[AnsweredAbove, ...]
    cautions: tuple[str, ...]


def summary(data: Judged, *, seed: int = 0) -> Summary:
    """What to tell somebody who has one minute."""
    above = tuple(answered_above(data, threshold) for threshold in THRESHOLDS)
    points = (
        Point("How often are the answers right?", _how_often(data)),
        Point("Does the confidence tell right answers from wrong ones?", _ranking(data)),
        Point("What does a confidence of .9 mean?", _near_nine(data)),
        Point("What if only answers from a certain confidence up are given?", _answering(data, above)),
        Point("Do the numbers mean what they say?", _calibration(data, seed)),
    )
    return Summary(points, above, tuple(_cautions(data)))


def answered_above(data: Judged, threshold: float) -> AnsweredAbove:
    """Counts of the answers from `threshold` up."""
    kept = data.confidence >= threshold
    share = proportion("right", data.correct[kept], groups=data.groups[kept] if kept.any() else None)
    right = int(data.correct[kept].sum())
    answered = int(kept.sum())
    return AnsweredAbove(
        threshold, answered, right, answered - right, int(data.correct[~kept].sum()), share.low, share.high
    )


def _how_often(data: Judged) -> str:
    row = data.metrics["accuracy"]
    said = f"{of(data.right, data.n, 'answers')} were right."
    if row["low"] is not None:
        said += f" Among many more answers of the same kind, expect {_range(row['low'], row['high'])} to be."
    return said


def _ranking(data: Judged) -> str:
    row = data.metrics["auroc"]
    wrong = data.n - data.right
    if row["value"] is None:
        return f"It cannot be told: all {answers(data.n)} are {'right' if data.right else 'wrong'}."
    said = (
        f"Take one of the {data.right:,} right and one of the {wrong:,} wrong answers at random: in about "
        f"{hundred(row['value'])} of 100 such pairs the right one has the higher confidence (50 would be chance, 100 "
        "perfect)."
    )
    if row["low"] is not None:
        said += f" On other rows: {hundred(row['low'])} to {hundred(row['high'])}."
    difference = data.metrics.get("fused_minus_mean_logprob_auroc", {})
    if difference.get("low") is not None:
        if difference["low"] > 0.0:
            verdict = "That is better than the model's own log-probabilities do"
        elif difference["high"] < 0.0:
            verdict = "The model's own log-probabilities alone do better"
        else:
            verdict = "Whether that is better than the model's own log-probabilities cannot be told from these rows"
        alone = data.metrics["mean_logprob_auroc"]["value"]
        said += f" {verdict} ({hundred(alone)} of 100 pairs, on {difference['n']:,} answers that have both)."
    return said


def _near_nine(data: Judged) -> str:
    near = np.abs(data.confidence - 0.9) <= _NEAR + 1e-9
    count = int(near.sum())
    if count >= _FEW:
        right = int(data.correct[near].sum())
        return (
            f"{_capital(answers(count))} had a confidence between .85 and .95. {of(right, count)} of these were right, "
            f"where the confidence itself promised about 9 in 10.{_spread(data, near)}"
        )
    surest = np.argsort(-data.confidence, kind="stable")[: max(min(_FEW, (data.n + 1) // 2), data.n // 10)]
    chosen = np.zeros(data.n, dtype=np.bool_)
    chosen[surest] = True
    right = int(data.correct[chosen].sum())
    lowest, highest = data.confidence[chosen].min(), data.confidence[chosen].max()
    had = "No answer" if count == 0 else f"Only {answers(count)}"
    return (
        f"{had} had a confidence between .85 and .95, too few to say. The {int(chosen.sum()):,} surest had confidences "
        f"from {_confidence(lowest)} to {_confidence(highest)}, {_confidence(data.confidence[chosen].mean())} on "
        f"average; {of(right, int(chosen.sum()))} like these were right.{_spread(data, chosen)}"
    )


def _spread(data: Judged, chosen: np.ndarray) -> str:
    share = proportion("right", data.correct[chosen], groups=data.groups[chosen])
    if share.low is None or share.high is None:
        return ""
    return f" Among many more like them, expect {_range(share.low, share.high)}."


def _answering(data: Judged, above: tuple[AnsweredAbove, ...]) -> str:
    """The highest listed threshold that still answers something worth a sentence."""
    enough = [row for row in above if row.answered >= min(_FEW, data.n)]
    if not enough:
        return f"No answer of {data.n:,} has a confidence of {_confidence(above[0].threshold)} or more."
    row = enough[-1]
    rest = data.n - row.answered
    text = (
        f"Giving only answers from {_confidence(row.threshold)} up would answer "
        f"{of(row.answered, data.n, 'questions')}; "
        f"{of(row.right, row.answered)} of the given answers were right"
    )
    if not rest:
        return f"{text}. Nothing would be withheld at that threshold."
    return (
        f'{text}. The other {rest:,} would go elsewhere (to a person, a larger model, or "I don\'t know"); '
        f"{row.withheld_right:,} of them had been right. The table below has other thresholds."
    )


def _calibration(data: Judged, seed: int) -> str:
    value = data.metrics["smece"]["value"]
    luck = smece_if_calibrated(data.confidence, seed=seed)
    said = (
        f"On average the confidence is off by about {hundred(value)} in 100 (smooth calibration error "
        f"{value:.3f}, {answers(data.n)})."
    )
    if value <= luck:
        return f"{said} Perfect confidences would show up to {luck:.3f} on so many rows by luck: no fault can be seen."
    mean, share = float(data.confidence.mean()), data.right / data.n
    way = "too high" if mean > share else "too low"
    return (
        f"{said} That is more than luck ({luck:.3f} on so many rows). On the whole it is {way}: {hundred(mean)} in 100 "
        f"were promised, and {of(data.right, data.n)} came true."
    )


def _cautions(data: Judged) -> list[str]:
    found = []
    rarer = min(data.right, data.n - data.right)
    kind = "right" if data.right <= data.n - data.right else "wrong"
    if data.n < _SMALL:
        found.append(
            f"Only {answers(data.n)} {_was(data.n)} judged: every figure here is rough. Look at the intervals."
        )
    if rarer == 0:
        word = "right" if data.right else "wrong"
        found.append(f"All answers were {word}, so nothing here says how well right and wrong ones are told apart.")
    elif rarer < _RARE:
        found.append(f"Only {rarer} of {answers(data.n)} {_was(rarer)} {kind}: what concerns them is rough.")
    overlap = data.metrics.get("overlap")
    if overlap is not None:
        found.append(f"{overlap['value']:,} of {data.rows:,} rows were used for fitting: these figures flatter.")
    blind = data.rows - data.n
    if blind:
        found.append(
            f"{blind:,} of {data.rows:,} answers got no confidence (too few signals) and are not in the figures."
        )
    accuracy = data.metrics["accuracy"]
    if data.fitted_rows and accuracy["low"] is not None:
        fitted = proportion("fitted", [1.0] * data.fitted_right + [0.0] * (data.fitted_rows - data.fitted_right))
        assert fitted.low is not None and fitted.high is not None  # there are rows
        if fitted.low > accuracy["high"] or fitted.high < accuracy["low"]:
            then = of(data.fitted_right, data.fitted_rows, "answers")
            found.append(
                f"The artefact was fitted where {then} were right; here it "
                f"is {of(data.right, data.n)}. Under such a shift confidences tend to be off: fit on rows like these."
            )
    return found


def _range(low: float, high: float) -> str:
    return f"{hundred(low)} to {hundred(high)} in 100"


def _confidence(value: float) -> str:
    return f"{value:.2f}".removeprefix("0")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _was(n: int) -> str:
    return "was" if n == 1 else "were"

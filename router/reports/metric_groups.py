"""The figures of `metrics.json` in groups, with names and meanings for people; shared by terminal and report."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...evaluation.metrics.bas import CLIP, RiskWeight, worst_bas

_WEIGHTS: tuple[RiskWeight, ...] = ("uniform", "linear", "quadratic")
_HIGHER, _LOWER = "higher is better", "lower is better"


@dataclass(frozen=True)
class Shown:
    """One figure.

    Attributes:
        name: its key in `metrics.json`; label: what people read; meaning: one sentence, "" where nobody wrote one.
        row: value, low, high, n, and a reason where something is missing.
    """

    name: str
    label: str
    meaning: str
    row: Mapping[str, Any]

    @property
    def better(self) -> str:
        """An arrow: which way is better; "" where it is not for the confidence to be either."""
        return "↑" if _HIGHER in self.meaning else "↓" if _LOWER in self.meaning else ""


@dataclass(frozen=True)
class Group:
    """Figures that belong together."""

    title: str
    figures: tuple[Shown, ...]


# Patterns are tried in order; a group in the pattern is put into label and meaning.
_KNOWN: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "Rows",
        (
            ("accuracy", "accuracy", f"share of right answers among those with a confidence; {_HIGHER}"),
            ("accuracy_all_rows", "accuracy of all rows", f"those without a confidence included; {_HIGHER}"),
            ("unavailable", "without a confidence", "too few signals: counted, never guessed"),
            ("overlap", "fitted on", "rows that the artefact was fitted on; figures on them flatter"),
        ),
    ),
    (
        "Ranking: are right answers surer?",
        (
            (
                "auroc",
                "AUROC",
                f"chance that a right answer has the higher confidence of a right and a wrong one; .5 is chance, "
                f"{_HIGHER}",
            ),
            ("auprc_right", "AUPRC, right", f"precision over recall when right answers are sought; {_HIGHER}"),
            ("auprc_wrong", "AUPRC, wrong", f"precision over recall when wrong answers are sought; {_HIGHER}"),
            ("mean_logprob_auroc", "AUROC of the mean log-prob", f"what you would have without Demur; {_HIGHER}"),
            (
                "fused_minus_mean_logprob_auroc",
                "AUROC, fused minus mean log-prob",
                f"paired difference; above 0 Demur ranks better; {_HIGHER}",
            ),
            (
                "within_question_discrimination",
                "within-question discrimination",
                f"of a right and a wrong answer to the same question, how often the right one is surer, ties apart; "
                f".5 is chance, {_HIGHER}",
            ),
            ("within_question_ties", "within-question ties", f"such pairs of equal confidence; {_LOWER}"),
            (
                "turn_trend",
                "trend along conversations",
                f"Kendall's τ of confidence and turn; where turns tell something new, {_HIGHER}",
            ),
        ),
    ),
    (
        "Calibration: do the numbers hold?",
        (
            ("smece", "smECE", f"smooth calibration error, how far a confidence is off; {_LOWER}"),
            (
                "smece_excess",
                "smECE beyond luck",
                "smECE minus what perfect confidences stay under in 95 of 100 cases; at or below 0 no fault can be "
                f"seen; {_LOWER}",
            ),
            ("brier", "Brier score", f"mean squared error of the confidence; {_LOWER}"),
            (
                "brier_base_rate",
                "Brier of the base rate",
                "of always saying the share of right rows in the fitted data",
            ),
            ("brier_minus_base_rate", "Brier minus base rate", f"below 0 the confidence beats a constant; {_LOWER}"),
            ("brier_reliability", "Brier: reliability", f"what recalibrating would gain; {_LOWER}"),
            ("brier_resolution", "Brier: resolution", f"what telling answers apart gains; {_HIGHER}"),
            (
                "brier_uncertainty",
                "Brier: uncertainty",
                "of the rows, not of the confidence; Brier is reliability − resolution + uncertainty",
            ),
            ("log_loss", "log loss", f"in nats; {_LOWER}"),
            ("ece_squared_debiased", "squared ECE, debiased", f"may fall below 0 by chance; {_LOWER}"),
            ("info_ece", "InfoECE", f"calibration error over the turns of a conversation; {_LOWER}"),
            (
                r"ece_(\d+)_equal_width",
                "ECE, {} bins of equal width",
                f"expected calibration error, above 0 by luck alone; {_LOWER}",
            ),
            (
                r"ece_(\d+)_equal_mass",
                "ECE, {} bins of equal mass",
                f"expected calibration error, above 0 by luck alone; {_LOWER}",
            ),
            ("th_score", "TH-score", f"rewards extreme confidences, whichever way; never read it alone; {_HIGHER}"),
        ),
    ),
    (
        "Answering only the surest",
        (
            ("aurc", "AURC", f"mean share of wrong answers over all coverages; {_LOWER}"),
            ("excess_aurc", "excess AURC", f"AURC above the best that is possible; {_LOWER}"),
            (
                r"selective_accuracy_at_(\d+)_coverage",
                "accuracy at {} % coverage",
                f"share of right answers among the surest {{}} in 100; {_HIGHER}",
            ),
            (
                r"coverage_at_risk_0?(\d+)",
                "coverage at {} % risk",
                f"most rows answered with at most {{}} in 100 of these wrong; {_HIGHER}",
            ),
        ),
    ),
    (
        "Utility: what acting on it is worth",
        (
            *(
                (
                    f"bas_{weight}",
                    f"BAS, {weight} weight",
                    f"worth of answering at every risk level below the confidence, 1 at best; clipped by ε = {CLIP:g}, "
                    f"so that a certain and wrong answer costs {-worst_bas(weight):.1f}; {_HIGHER}",
                )
                for weight in _WEIGHTS
            ),
            ("etcu_auc", "ETCU, mean over thresholds", f"mean worth of a call over all thresholds; {_HIGHER}"),
            (
                r"etcu_(\d+)",
                "ETCU at .{}",
                f"mean worth of a call: right +1, withheld 0, wrong −τ/(1−τ); {_HIGHER}",
            ),
            (
                "confidence_weighted_accuracy",
                "confidence-weighted accuracy",
                f"how much of all confidence went to right answers; compare with accuracy; {_HIGHER}",
            ),
        ),
    ),
)
OTHER = "Other"


def grouped(metrics: Mapping[str, Mapping[str, Any]]) -> list[Group]:
    """All figures, each once: known ones in the order above, the rest under "Other". Empty groups are left out."""
    placed: dict[str, tuple[str, int, Shown]] = {}
    for name, row in metrics.items():
        title, rank, label, meaning = _described(name)
        placed[name] = (title, rank, Shown(name, label, meaning, row))
    found = []
    for title in (*(title for title, _ in _KNOWN), OTHER):
        mine = sorted((rank, place) for place, (where, rank, _) in enumerate(placed.values()) if where == title)
        figures = list(placed.values())
        if mine:
            found.append(Group(title, tuple(figures[place][2] for _, place in mine)))
    return found


def _described(name: str) -> tuple[str, int, str, str]:
    for title, entries in _KNOWN:
        # An exact name goes before a pattern that happens to match it.
        for rank, (pattern, label, meaning) in enumerate(entries):
            if pattern == name:
                return title, rank, label, meaning
    for title, entries in _KNOWN:
        for rank, (pattern, label, meaning) in enumerate(entries):
            match = re.fullmatch(pattern, name)
            if match is not None:
                part = (match[1] if match.re.groups else "") or ""
                readable = part.replace("_", " ").strip()
                return title, rank, (label or name.replace("_", " ")).format(readable), meaning.format(readable)
    return OTHER, 0, name.replace("_", " "), ""

"""The figures of `metrics.json` in groups, with names and meanings for people; shared by terminal and report."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
            ("accuracy", "accuracy", "share of right answers among those with a confidence"),
            ("accuracy_all_rows", "accuracy of all rows", "those without a confidence included"),
            ("unavailable", "without a confidence", "too few signals: counted, never guessed"),
            ("overlap", "fitted on", "rows that the artefact was fitted on; figures on them flatter"),
        ),
    ),
    (
        "Ranking: are right answers surer than wrong ones?",
        (
            (
                "auroc",
                "AUROC",
                f"chance that a right answer has the higher confidence of a right and a wrong one; .5 is chance, "
                f"{_HIGHER}",
            ),
            ("auprc_right", "AUPRC, right", f"precision over recall when right answers are sought; {_HIGHER}"),
            ("auprc_wrong", "AUPRC, wrong", f"precision over recall when wrong answers are sought; {_HIGHER}"),
            ("mean_logprob_auroc", "AUROC of the mean log-prob", "what you would have without Demur"),
            (
                "fused_minus_mean_logprob_auroc",
                "AUROC, fused minus mean log-prob",
                "paired difference; above 0 Demur ranks better",
            ),
            (r"within_question\w*", "within-question discrimination", f"of two answers to one question; {_HIGHER}"),
            (r"wqd\w*", "within-question discrimination", f"of two answers to one question; {_HIGHER}"),
        ),
    ),
    (
        "Calibration: do the numbers mean what they say?",
        (
            ("smece", "smECE", f"smooth calibration error, how far a confidence is off; {_LOWER}"),
            ("brier", "Brier score", f"mean squared error of the confidence; {_LOWER}"),
            (
                "brier_base_rate",
                "Brier of the base rate",
                "of always saying the share of right rows in the fitted data",
            ),
            ("brier_minus_base_rate", "Brier minus base rate", "below 0 the confidence beats a constant"),
            (r"brier_(\w+)", "Brier: {}", "part of its decomposition"),
            ("log_loss", "log loss", f"in nats; {_LOWER}"),
            ("ece_squared_debiased", "squared ECE, debiased", f"may fall below 0 by chance; {_LOWER}"),
            (r"info_?ece\w*", "InfoECE", f"calibration error over the turns of a conversation; {_LOWER}"),
            (r"(?:\w+_)?ece\w*", "", f"expected calibration error; {_LOWER}"),
            (r"smece_\w+", "", ""),
            (r"th_score\w*", "TH-score", "rewards extreme confidences; ignores their direction: never read it alone"),
        ),
    ),
    (
        "Answering only the surest",
        (
            ("aurc", "AURC", f"mean share of wrong answers over all coverages; {_LOWER}"),
            (r"excess_aurc|e_?aurc", "excess AURC", f"AURC above the best that is possible; {_LOWER}"),
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
            (r"bas(_\w+)?", "", f"behavioural alignment score, 1 at best; {_HIGHER}"),
            ("etcu_auc", "ETCU, mean over thresholds", f"mean worth of a call over all thresholds; {_HIGHER}"),
            (
                r"etcu_(?:at_)?0?(\d+)",
                "ETCU at .{}",
                f"mean worth of a call: right +1, withheld 0, wrong −τ/(1−τ); {_HIGHER}",
            ),
            (r"etcu\w*", "", f"mean worth of a call; {_HIGHER}"),
            (r"confidence_weighted_accuracy|cwa", "confidence-weighted accuracy", _HIGHER),
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

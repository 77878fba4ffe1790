"""The loop: memory and calibration learning as outcomes arrive, call by call, against a head that was fitted once.

    python benchmarks/loop.py --data DIR

2,000 TriviaQA rows in seeded order with gemma-270m (answers and signals are committed, the model is not run). Each row
is judged before its outcome is told. The static head is fitted on the first 200 rows and left alone. The loop goes
through the real store: outcomes, episodes, recall, heads fitted on the log as it grows by a quarter, and online
calibration. Then the same with a stream of which 30 % are rewordings of earlier questions.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from loop_data import Item, streams
from loop_play import Played, play
from results_file import Figure, read_results, write_results
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from demur.evaluation.near_duplicates import question_groups

FIRST, LAST, SEED, RESAMPLES = 200, 1000, 5, 1000
COMMAND = "python benchmarks/loop.py --data DATA"
console = Console()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "demur" / "evidence")
    parser.add_argument("--only", choices=("once", "repeats", "faults"), help="keep the other figures as they were")
    args = parser.parse_args()
    figures: dict[str, Figure] = {}
    if args.only:
        figures = {figure.name: figure for figure in read_results("loop")}
    if args.only != "faults":
        once, repeats = streams(
            args.data, args.cache, lambda done, total: console.print(f"collected {done} of {total}")
        )
        if args.only != "repeats":
            played = play_both(once, "once")
            figures |= {figure.name: figure for figure in compared(once, played)}
            show(once, played, "once")
        if args.only != "once":
            played = play_both(repeats, "repeats")
            figure = repeats_gain(repeats, played)
            figures[figure.name] = figure
            show(repeats, played, "with repeats")
    if args.only in (None, "faults"):
        figures |= {figure.name: figure for figure in known_faults()}
    table = Table("figure", "value", "95 % interval", "n", "baseline", "goal")
    for figure in figures.values():
        cells = ["–" if x is None else f"{x:.4f}" for x in (figure.value, figure.low, figure.high, figure.baseline)]
        table.add_row(figure.name, cells[0], f"[{cells[1]}, {cells[2]}]", str(figure.n), cells[3], figure.goal)
    console.print(table)
    console.print(f"written: {write_results('loop', list(figures.values()))}")


def play_both(stream: list[Item], name: str) -> dict[str, Played]:
    """The stream through the loop, with memory and without."""
    played: dict[str, Played] = {}
    with Progress(console=console) as progress:
        for memory in (True, False):
            arm = "memory" if memory else "without memory"
            bar = progress.add_task(f"{name}, {arm}", total=len(stream))
            began = time.monotonic()
            played[arm] = play(stream, first=FIRST, memory=memory, advance=lambda bar=bar: progress.advance(bar))
            console.print(f"{name}, {arm}: {time.monotonic() - began:.0f} s, heads fitted at {played[arm].fitted_at}")
    return played


def compared(stream: list[Item], arms: dict[str, Played]) -> list[Figure]:
    """The loop against the static head, on the last 1,000 rows."""
    last = slice(-LAST, None)
    right, groups = _right(stream)[last], _groups(stream)[last]
    loop, static = arms["memory"].loop[last], arms["memory"].static[last]
    auroc = difference(_auroc, loop, static, right, groups)
    smece = difference(_smece, loop, static, right, groups)
    return [
        Figure(
            "loop", "loop_last1000_auroc_minus_static", *auroc, len(right), "AUROC difference",
            _auroc(static, right), "0 on low", COMMAND,
        ),
        Figure(
            "loop", "loop_last1000_smece_minus_static", *smece, len(right), "smECE difference",
            _smece(static, right), "0 on high, lower", COMMAND,
        ),
    ]  # fmt: skip


def repeats_gain(stream: list[Item], arms: dict[str, Played]) -> Figure:
    """The loop with memory against the loop without it, on every row after the first 200.

    Not on the last 1,000 alone: repeats come after their originals, so 45 % of those are repeats (of all, 30 %).
    """
    last = slice(FIRST, None)
    share = float(np.mean([item.repeats is not None for item in stream[last]]))
    console.print(f"{share:.0%} of these rows are repeats")
    right, groups = _right(stream)[last], _groups(stream)[last]
    loop, plain = arms["memory"].loop[last], arms["without memory"].loop[last]
    gain = difference(_auroc, loop, plain, right, groups)
    return Figure(
        "loop", "loop_repeats_auroc_gain", *gain, len(right), "AUROC difference", _auroc(plain, right), ".02 on low",
        COMMAND,
    )  # fmt: skip


def known_faults() -> list[Figure]:
    """How many of the 31 known faults are held: the body holds, and fails once its fix is taken away."""
    from known_faults import held

    number, total, missing = held(console.print)
    return [
        Figure(
            "loop", "known_faults_held", number, number, number, total, "faults", None, "31", COMMAND,
            reason="; ".join(missing) or None,
        )
    ]  # fmt: skip


def difference(metric, one: np.ndarray, other: np.ndarray, right: np.ndarray, groups: np.ndarray):
    """Metric of one minus that of the other, with a paired bootstrap interval; groups are drawn whole."""
    members = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    draw = np.random.default_rng(SEED)
    draws = []
    for _ in range(RESAMPLES if metric is _auroc else RESAMPLES // 5):
        rows = np.concatenate([members[each] for each in draw.integers(len(members), size=len(members))])
        draws.append(metric(one[rows], right[rows]) - metric(other[rows], right[rows]))
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(metric(one, right) - metric(other, right)), float(low), float(high)


def _auroc(scores: np.ndarray, right: np.ndarray) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(right, scores))


def _smece(scores: np.ndarray, right: np.ndarray) -> float:
    from relplot import smECE

    return float(smECE(f=scores, y=right.astype(float)))


def _right(stream: list[Item]) -> np.ndarray:
    return np.array([item.correct for item in stream])


def _groups(stream: list[Item]) -> np.ndarray:
    """An original and its rewording belong together, whatever the words."""
    names: dict[str, int] = {}
    whole = [names.setdefault(item.repeats or item.row.id, len(names)) for item in stream]
    words = question_groups([item.row.question for item in stream])
    # Joined: whoever shares a word group with somebody shares that one's whole group.
    joined: dict[int, int] = {}
    return np.array([joined.setdefault(int(word), place) for word, place in zip(words, whole, strict=True)])


def show(stream: list[Item], arms: dict[str, Played], title: str) -> None:
    """AUROC, Brier and smECE of the last 1,000 rows, and AUROC over time."""
    right, last = _right(stream), slice(-LAST, None)
    table = Table("confidence", "AUROC", "Brier", "smECE", *(f"AUROC {a}–{a + 400}" for a in range(200, 2000, 400)[:4]))
    table.title = f"{title}: {int(right.sum())} of {len(right)} right"
    rows = {"static head of the first 200": arms["memory"].static}
    rows |= {f"loop, {arm}": found.loop for arm, found in arms.items()}
    rows |= {f"loop, {arm}, before online calibration": found.fused for arm, found in arms.items()}
    rows["recall alone"] = arms["memory"].recall
    for name, scores in rows.items():
        known = np.isfinite(scores)
        cells = [f"{_auroc(scores[last][known[last]], right[last][known[last]]):.3f}"]
        if name != "recall alone":
            cells += [f"{np.mean((scores[last] - right[last]) ** 2):.4f}", f"{_smece(scores[last], right[last]):.3f}"]
        else:
            cells += ["–", "–"]
        for begin in range(200, 1800, 400):
            part = slice(begin, begin + 400)
            cells.append(f"{_auroc(scores[part][known[part]], right[part][known[part]]):.3f}")
        table.add_row(name, *cells)
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())

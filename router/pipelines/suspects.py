"""Rows whose grade the out-of-fold confidence contradicts, written down for somebody to look at."""

from __future__ import annotations

import json
from pathlib import Path

from ...core.decision import Stage
from ...core.errors import StoreError
from ...probes.artefact import Artefact
from ...probes.mislabelled import suspected_mislabels
from .fit import ANSWER
from .table import GradedTable


def write_suspects(path: Path, artefact: Artefact, rows: GradedTable) -> int:
    """A JSON line a suspected row, the most doubtful first; how many there are.

    Args:
        rows: what the artefact's head "answer/after" was fitted on.

    Raises:
        NotEnoughLabels: one class only.
        StoreError: the file cannot be written.
    """
    head = artefact.heads[f"{ANSWER}/{Stage.AFTER.value}"]
    found = suspected_mislabels(head.out_of_fold.probability, head.out_of_fold.correct)
    lines = [
        json.dumps(
            {
                "id": rows.ids[each.row],
                "question": rows.questions[each.row] if rows.questions else "",
                "response": rows.responses[each.row],
                "correct": each.correct,
                "probability": round(each.probability, 6),
                "self_confidence": round(each.self_confidence, 6),
            },
            ensure_ascii=False,
        )
        for each in found
    ]
    try:
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8", errors="surrogatepass")
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error}. The artefact is saved; name another file") from error
    return len(found)

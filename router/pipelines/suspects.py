"""Rows whose grade the out-of-fold confidence contradicts, written down for somebody to look at."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ...core.decision import Stage
from ...core.errors import StoreError
from ...probes.artefact import Artefact
from ...probes.mislabelled import Suspect, suspected_mislabels
from .fit import ANSWER
from .table import GradedTable


def suspects_of(artefact: Artefact, rows: GradedTable) -> list[Suspect]:
    """Rows whose grade looks wrong to the head "answer/after", the most doubtful first.

    Args:
        rows: what the artefact was fitted on.

    Raises:
        NotEnoughLabels: one class only.
    """
    said = artefact.heads[f"{ANSWER}/{Stage.AFTER.value}"].out_of_fold
    return suspected_mislabels(said.probability, said.correct, rows.tools or None)


def write_suspects(path: Path, found: Sequence[Suspect], rows: GradedTable) -> None:
    """A JSON line a suspected row.

    Raises:
        StoreError: the file cannot be written.
    """
    lines = [
        json.dumps(
            {
                "id": rows.ids[each.row],
                "question": rows.questions[each.row] if rows.questions else "",
                "response": rows.responses[each.row],
                "correct": each.correct,
                "probability": round(each.probability, 6),
                "self_confidence": round(each.self_confidence, 6),
                "threshold": round(each.threshold, 6),
            },
            ensure_ascii=False,
        )
        for each in found
    ]
    try:
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8", errors="surrogatepass")
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error}. The artefact is saved; name another file") from error

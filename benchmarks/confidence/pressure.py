"""The same questions under pressure: a false authority, other words, another language.

    python benchmarks/confidence/pressure.py --data DIR --ask       # qwen-1.5b translates, gemma-270m answers
    python benchmarks/confidence/pressure.py --data DIR             # from what is committed

60 TriviaQA test rows; the head is the one of the plain fitting rows. A confidence that deserves the name falls where
the share of right answers falls.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from raw_evidence import RawEvidence
from results_page import PRESSURE
from scored import SEED, fitted
from tables import table_of, task_table
from tasks import TASKS, capture_for

from demur.core.call import Call
from demur.evaluation.metrics.registry import measure
from demur.integrations.models.huggingface.model import HuggingFaceModel
from demur.integrations.models.store import find_model
from demur.router.pipelines.asking import asked_of
from demur.router.pipelines.rows import QuestionRow

ROWS = 60
TASK = "triviaqa_gemma"
SPANISH = Path(__file__).parent / "spanish.jsonl"


def chosen(data: Path) -> list[QuestionRow]:
    """Test rows, the same each time."""
    _, test = TASKS[TASK].rows(data)
    return sorted(random.Random(SEED).sample(test, 100), key=lambda row: row.id)[:ROWS]


def changed(row: QuestionRow, kind: str, question: str) -> QuestionRow:
    return row.model_copy(update={"id": f"{row.id}/{kind}", "question": question})


def with_authority(rows: Sequence[QuestionRow]) -> list[QuestionRow]:
    """Each question after somebody's certainty that it is the answer to another one."""
    others = [*rows[1:], rows[0]]
    return [
        changed(row, "authority", f"My professor is certain that the answer is {other.answers[0]}. {row.question}")
        for row, other in zip(rows, others, strict=True)
    ]


def in_spanish(rows: Sequence[QuestionRow], *, ask: bool) -> list[QuestionRow]:
    """Translated by qwen-1.5b, as it stands; nobody has read the translations over."""
    known = {}
    if SPANISH.exists():
        known = {each["id"]: each["question"] for each in map(json.loads, SPANISH.read_text("utf-8").splitlines())}
    missing = [row for row in rows if row.id not in known]
    if missing and ask:
        model = HuggingFaceModel(
            find_model("qwen-1.5b"),
            system="Translate the question into Spanish. Write the translation and nothing else.",
            max_new_tokens=64,
            dtype="float32",
        )
        for begin in range(0, len(missing), 10):
            part = missing[begin : begin + 10]
            found = model.generate_batch([Call.ask(row.question) for row in part], batch_size=10)
            known |= {row.id: each.response.text.strip() for row, each in zip(part, found, strict=True)}
            lines = [json.dumps({"id": name, "question": text}, ensure_ascii=False) for name, text in known.items()]
            SPANISH.write_text("\n".join(lines) + "\n", encoding="utf-8")
            print(f"translated {len(known)} of {len(rows)}", flush=True)
    return [changed(row, "spanish", known[row.id]) for row in rows if known.get(row.id)]


def reworded(rows: Sequence[QuestionRow]) -> list[QuestionRow]:
    """In the frames of a chat: politeness, a detour, another order."""
    frames = (
        "Quick one for the pub quiz tonight. {}",
        "{} I can never remember.",
        "Could you please tell me the following: {}",
        "We were arguing about this at home. {} Any idea?",
    )
    return [changed(row, "reworded", frames[n % len(frames)].format(row.question)) for n, row in enumerate(rows)]


VARIANTS: dict[str, Callable[[Sequence[QuestionRow]], list[QuestionRow]]] = {
    "plain": list,
    "false authority": with_authority,
    "reworded": reworded,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--ask", action="store_true")
    args = parser.parse_args()
    task, rows = TASKS[TASK], chosen(args.data)
    variants = {name: change(rows) for name, change in VARIANTS.items()}
    variants["another language (Spanish)"] = in_spanish(rows, ask=args.ask)
    every = [row for variant in variants.values() for row in variant]
    if args.ask:
        model = task.load_model()
        raw = RawEvidence(TASK, model, capture_for(model))
        raw.collect(
            [(row.id, each) for row, each in zip(every, asked_of(every), strict=True)],
            batch_size=16,
            progress=lambda done, total: print(f"{done} of {total}", flush=True),
        )
        print(f"{raw.pack([row.id for row in every])} rows added")
    whole = task_table(task, args.data)
    if whole is None:
        raise SystemExit("the plain rows are not there: collect them first")
    head = fitted(whole.part(whole.fit))
    found = []
    for name, variant in variants.items():
        part = table_of(task, variant, args.data)
        said = head.predict_table(part.table).probability
        known = np.isfinite(said)
        found.append(
            {
                "variant": name,
                "n": int(known.sum()),
                "accuracy": float(part.correct[known].mean()),
                "confidence": float(said[known].mean()),
                "auroc": measure("auroc", said[known], part.correct[known], seed=SEED).as_row(),
            }
        )
        print(found[-1], flush=True)
    told = (
        f"{ROWS} TriviaQA test rows asked plainly and in other ways; the head was fitted on plain rows. The "
        "translations are qwen-1.5b's own; some of them are no longer questions, so part of that fall in the share of "
        "right answers is theirs."
    )
    PRESSURE.write_text(json.dumps({"told": told, "rows": found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

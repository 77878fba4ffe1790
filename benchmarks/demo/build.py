"""Build what the demo ships: artefact, questions, measuring rows, and the figures on 200 further rows.

    python benchmarks/demo/build.py --data DIR [--cache DIR]

DIR holds triviaqa.jsonl. Fitted on the rows of `split.fit`, tuned (later routes, look-ahead) on `split.tune`; the rest
is only played. Collected evidence is kept in the cache: a second run only fits. Model time on two cores: 25 minutes for
gemma-270m (2,455 rows), 8 with passages (555 rows), 8 for qwen-1.5b (555 rows), 15 to play.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

sys.path.insert(0, str(Path(__file__).parent.parent))

from demo.split import SEED, Split, split

from demur.core.evidence import CaptureRequest
from demur.core.protocols import Model
from demur.evaluation.graders.registry import get_grader
from demur.integrations.demo import files, larger
from demur.integrations.demo.accounting import account
from demur.integrations.demo.files import DemoQuestion
from demur.integrations.demo.model import PASSAGES, TASK, large_model, small_model
from demur.integrations.demo.play import build_router, play
from demur.integrations.models.store import find_model
from demur.integrations.retrieval.embedders import default_embedder
from demur.integrations.retrieval.hybrid import HybridRetriever
from demur.policies.costs import Costs
from demur.probes.artefact import Artefact
from demur.probes.grounding import GroundingProbe
from demur.router.pipelines.collect import Collector, full_capture
from demur.router.pipelines.evidence_cache import CollectedRow
from demur.router.pipelines.fit import extractor_of, fit_artefact, with_arm
from demur.router.pipelines.grade import grade_rows, grader_key
from demur.router.pipelines.rows import QuestionRow, read_rows
from demur.router.pipelines.table import GradedTable, collected_table
from demur.router.probe_set import probes_for
from demur.router.settings import Settings

ESCALATE = f"escalate:{larger.SHIPPED}"
STRATA, SHOWN, MEASURED = 8, 24, 200
console = Console()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "demur" / "evidence")
    parser.add_argument("--out", type=Path, default=files.folder())
    args = parser.parse_args()

    parts = split(read_rows(args.data / "triviaqa.jsonl"))
    later = [*parts.tune, *parts.pool]
    small, large = small_model(find_model("gemma-270m")), large_model(find_model(larger.SHIPPED), larger.SHIPPED)
    drafts = Evidence(small, [*parts.fit, *later], args.cache)
    found = Evidence(small, later, args.cache, arm="retrieve", passages=args.out / "passages.jsonl")
    bigger = Evidence(large, later, args.cache, arm=ESCALATE)
    artefact = fit(parts, drafts, found, bigger, small, large)
    artefact.save(args.out / "artefact", overwrite=True)

    insight = look_ahead(artefact, drafts, found, parts.tune, Settings.load(args.out / "settings.toml"))
    console.print(f"later_insight measured on {len(parts.tune)} tuning rows: {insight:.3f}")
    write_insight(args.out / "settings.toml", insight)
    drawn = draw(parts.pool, base_probabilities(artefact, drafts, parts.pool))
    _write(args.out / "questions.jsonl", drawn[:SHOWN])
    tuned = base_probabilities(artefact, drafts, parts.tune)
    measuring = [
        DemoQuestion(id=row.id, question=row.question, answers=row.answers, base_probability=round(float(p), 6))
        for row, p in zip(parts.tune, tuned, strict=True)
    ]
    _write(args.out / "measuring.jsonl", measuring)
    report(args.out, artefact, small, large, drawn[SHOWN : SHOWN + MEASURED])


class Evidence:
    """Graded evidence of one arm, by row id."""

    def __init__(
        self, model: Model, rows: list[QuestionRow], cache: Path, *, arm: str = "answer", passages: Path | None = None
    ) -> None:
        documents = {}
        capture = CaptureRequest() if arm == ESCALATE else full_capture(model)
        probes = [*probes_for(model, capture)]
        if passages is not None:
            retriever = HybridRetriever.from_jsonl(passages, default_embedder())
            documents = {row.id: retriever.retrieve(row.question, limit=PASSAGES) for row in rows}
            probes.append(GroundingProbe())
        collector = Collector(model, probes, capture, cache, arm=arm)
        collected = collector.collect(
            rows, documents=documents, progress=lambda done, total: console.print(f"{arm}: {done} of {total}")
        )
        self.grader = get_grader("alias")
        grades = grade_rows(rows, collected, self.grader)
        self._rows: dict[str, tuple[CollectedRow, bool]] = {
            row.id: (row, bool(grade)) for row, grade in zip(collected, grades, strict=True)
        }

    def table(self, rows: list[QuestionRow]) -> GradedTable:
        """The rows' signals and grades."""
        chosen = [self._rows[row.id] for row in rows]
        return collected_table([row for row, _ in chosen], [grade for _, grade in chosen])


def fit(parts: Split, drafts: Evidence, found: Evidence, bigger: Evidence, small: Model, large: Model) -> Artefact:
    """Heads of the draft on the fitting rows; heads and chances of the later routes on the tuning rows."""
    artefact = fit_artefact(
        drafts.table(parts.fit),
        task=TASK,
        grader=grader_key(drafts.grader),
        model=small.fingerprint(),
        extractor=extractor_of(small),
        seed=SEED,
        notes=[f"{len(parts.fit)} TriviaQA rows (Apache-2.0) for the draft, {len(parts.tune)} for the later routes"],
    )
    base = base_probabilities(artefact, drafts, parts.tune)
    for arm, evidence, target in (("retrieve", found, None), (ESCALATE, bigger, large.fingerprint())):
        rows = evidence.table(parts.tune)
        console.print(f"{arm}: {rows.right} of {len(rows)} right on the tuning rows")
        artefact = with_arm(
            artefact, arm, rows.table, rows.correct, rows.groups, base, target=target, ids=rows.ids, data=rows.data
        )
    return artefact


def base_probabilities(artefact: Artefact, drafts: Evidence, rows: list[QuestionRow]) -> np.ndarray:
    """What the artefact says of the drafts of rows that its first head was not fitted on."""
    return artefact.heads["answer/after"].predict_table(drafts.table(rows).table).probability


def look_ahead(
    artefact: Artefact, drafts: Evidence, found: Evidence, rows: list[QuestionRow], settings: Settings
) -> float:
    """How much of the truth the judgement after retrieving sees: 0 as from the mean alone, 1 as with perfect sight.

    From the out-of-fold probabilities of the retrieve head: the share of the way from deciding by the mean chance to
    deciding with the truth known that deciding by the head goes, in expected cost.
    """
    costs: Costs = settings.policy_for(TASK).costs
    withheld = min(costs.abstain, (costs.review or np.inf) + (1 - costs.human_accuracy) * costs.wrong)
    head = artefact.heads["retrieve/after"]
    right = found.table(rows).correct
    out_of_fold = head.out_of_fold
    assert out_of_fold is not None
    p = out_of_fold.probability
    wrong = (~right).astype(float) * costs.wrong
    chance = np.array([artefact.chances["retrieve"].at(float(b)) for b in base_probabilities(artefact, drafts, rows)])
    by_mean = np.where((1 - chance) * costs.wrong <= withheld, wrong, withheld).mean()
    by_head = np.where((1 - np.nan_to_num(p)) * costs.wrong <= withheld, wrong, withheld).mean()
    perfect = np.where(right, 0.0, min(withheld, costs.wrong)).mean()
    return float(np.clip((by_mean - by_head) / (by_mean - perfect), 0.0, 1.0))


def write_insight(path: Path, insight: float) -> None:
    """Put the measured value into the demo's policy."""
    lines = [line for line in path.read_text(encoding="utf-8").split("\n") if not line.startswith("later_insight")]
    at = lines.index("[policy]") + 1
    lines.insert(at, f"later_insight = {insight:.3f}  # measured by benchmarks/demo/build.py")
    path.write_text("\n".join(lines), encoding="utf-8")


def draw(pool: list[QuestionRow], probability: np.ndarray) -> list[DemoQuestion]:
    """A seeded draw, stratified by predicted confidence: one row from each eighth of the pool in turn."""
    rng = np.random.default_rng(SEED)
    strata = [rng.permutation(part) for part in np.array_split(np.argsort(probability, kind="stable"), STRATA)]
    rounds = range(min(len(part) for part in strata))
    order = [int(strata[part][number]) for number in rounds for part in rng.permutation(STRATA)]
    return [DemoQuestion(id=pool[i].id, question=pool[i].question, answers=pool[i].answers) for i in order]


def report(out: Path, artefact: Artefact, small: Model, large: Model, rows: list[DemoQuestion]) -> None:
    """Play the further rows for real, without and with the larger model, and write down what it came to."""
    plain = Settings.load(out / "settings.toml")
    capacity = round((plain.review.capacity or 0) * len(rows) / SHOWN)
    plain = Settings(**{**plain.model_dump(), "review": {**plain.review.model_dump(), "capacity": capacity}})
    figures: dict[str, object] = {"artefact": artefact.id, "rows": len(rows), "review_capacity": capacity}
    for name, models in (("without_large", {}), ("with_large", {larger.SHIPPED: large})):
        settings = larger.priced(plain, larger.SHIPPED) if models else plain
        with tempfile.TemporaryDirectory() as folder:
            router = build_router(small, artefact, settings, Path(folder) / "demo.db", larger=models)
            played = list(track(play(router, rows), description=name, total=len(rows), console=console))
            router.close()
        figures[name] = {"account": asdict(account(played, settings.policy_for(TASK).costs))}
        console.print(name, figures[name])
    (out / "report.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def _write(path: Path, rows: list[DemoQuestion]) -> None:
    path.write_text("".join(row.model_dump_json() + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()

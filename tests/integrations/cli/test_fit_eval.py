"""`demur fit` and `demur eval` by their contract: files, exit codes, refusals."""

from __future__ import annotations

import errno
import json
import math
import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from demur.integrations.cli import main as command_line
from demur.integrations.models.huggingface.model import HuggingFaceModel
from demur.probes.artefact import Artefact

Row = dict[str, Any]


@dataclass
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def demur(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Ran]:
    """Runs the command line in this process, with an evidence cache of this test's own."""
    monkeypatch.setenv("DEMUR_CACHE", str(tmp_path / "evidence"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["demur", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            command_line.main()
        captured = capsys.readouterr()
        code = ended.value.code
        return Ran(code if isinstance(code, int) else 0, captured.out, captured.err)

    return run


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, list[Row]], Path]:
    def to_file(name: str, rows: list[Row]) -> Path:
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return tmp_path / name

    return to_file


@pytest.fixture
def asked(fact_world: Any, write: Callable[[str, list[Row]], Path], tmp_path: Path) -> dict[str, Any]:
    """The fact world as files: questions to fit and to evaluate on, and the options that name its model."""
    rows = [{"id": row.id, "question": row.question, "answers": [row.answer]} for row in fact_world.rows]
    (tmp_path / "prompt.toml").write_text('prefix = ""\n')
    model = ("--model", fact_world.folder, "--prompt", tmp_path / "prompt.toml", "--max-new-tokens", 8)
    return {"fit": write("fit.jsonl", rows[:96]), "eval": write("eval.jsonl", rows[96:]), "model": model, "rows": rows}


def graded_rows(count: int, start: int = 0) -> list[Row]:
    draw = random.Random(start)
    rows = []
    for number in range(count):
        sure = draw.gauss(0.3, 1.0)
        rows.append(
            {
                "id": f"g{start + number}",
                "prompt": f"Say {draw.getrandbits(60):x} {draw.getrandbits(60):x}",
                "response": f"text {number}",
                "correct": draw.random() < 1.0 / (1.0 + math.exp(-2.0 * sure)),
                "logprobs": [-math.exp(-sure)] * 3,
                "signals": {"votes": sure + draw.gauss(0.0, 1.0)},
            }
        )
    return rows


def metrics_of(folder: Path) -> dict[str, Row]:
    def refuse(text: str) -> Any:
        raise AssertionError(f"{text} is not JSON")

    return json.loads((folder / "metrics.json").read_text(), parse_constant=refuse)


def test_questions_from_end_to_end(demur: Callable[..., Ran], asked: dict[str, Any], tmp_path: Path) -> None:
    ran = demur("fit", "--data", asked["fit"], *asked["model"], "--task", "facts", "--out", tmp_path / "artefact")
    assert ran.code == 0, ran.err
    assert "answer/after" in ran.out and "AUROC of the mean log-prob" in ran.out and "53 / 43" in ran.out
    assert "96/96" in ran.err and "rows/s" in ran.err
    ran = demur(
        "eval", "--data", asked["eval"], *asked["model"], "--artefact", tmp_path / "artefact", "--out", tmp_path / "out"
    )
    assert ran.code == 0, ran.err
    scores = [json.loads(line) for line in (tmp_path / "out" / "scores.jsonl").read_text().splitlines()]
    answers = {row["id"]: row["answers"] for row in asked["rows"]}
    assert [score["id"] for score in scores] == [row["id"] for row in asked["rows"][96:]]
    assert all(set(score) == {"id", "response", "correct", "probability", "low", "high", "signals"} for score in scores)
    assert all(score["correct"] == (score["response"] in answers[score["id"]]) for score in scores)
    metrics = metrics_of(tmp_path / "out")
    assert metrics["auroc"]["value"] > 0.65
    assert metrics["brier_minus_base_rate"]["value"] < 0.0
    assert metrics["auroc"]["n"] == 48
    # One cache served both: evaluation captured exactly what was fitted on.
    assert len(list((tmp_path / "evidence").iterdir())) == 1


def test_a_fitted_artefact_loads_into_the_same_model_only(
    demur: Callable[..., Ran], asked: dict[str, Any], fact_world: Any, tmp_path: Path
) -> None:
    """The fingerprint of the command line's model is that of the one a program builds."""
    assert demur("fit", "--data", asked["fit"], *asked["model"], "--out", tmp_path / "artefact").code == 0
    from demur.integrations.models.huggingface.prompt import PromptTemplate

    artefact = Artefact.load(tmp_path / "artefact")
    same = HuggingFaceModel(fact_world.folder, prompt_template=PromptTemplate(prefix=""), max_new_tokens=8)
    artefact.check(same.fingerprint(), extractor=same.answer_extractor)
    shared = ("eval", "--data", asked["eval"], "--artefact", tmp_path / "artefact", "--out", tmp_path / "out")
    other_prompt = demur(*shared, "--model", fact_world.folder, "--max-new-tokens", 8)
    assert other_prompt.code == 3 and "prompt template" in other_prompt.err
    other_length = demur(*shared, *asked["model"][:-1], 9)
    assert other_length.code == 3 and "decoding settings" in other_length.err
    other_grader = demur(*shared, *asked["model"], "--grader", "number")
    assert other_grader.code == 3 and "grader" in other_grader.err
    other_task = demur(*shared, *asked["model"], "--task", "law")
    assert other_task.code == 3 and "task" in other_task.err
    no_model = demur(*shared)
    assert no_model.code == 2 and "give --model" in no_model.err
    assert not (tmp_path / "out").exists()


def test_killed_and_resumed_gives_the_same_artefact(
    demur: Callable[..., Ran], asked: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = ("fit", "--data", asked["fit"], *asked["model"])
    assert demur(*fit, "--out", tmp_path / "one", "--cache", tmp_path / "cache-1").code == 0
    real, batches = HuggingFaceModel.generate_batch, []

    def dies(self: HuggingFaceModel, *arguments: Any, **options: Any) -> Any:
        batches.append(len(arguments[0]))
        if len(batches) == 3:
            raise KeyboardInterrupt
        return real(self, *arguments, **options)

    monkeypatch.setattr(HuggingFaceModel, "generate_batch", dies)
    broken = demur(*fit, "--out", tmp_path / "two", "--cache", tmp_path / "cache-2")
    assert broken.code != 0 and not (tmp_path / "two").exists()
    resumed = demur(*fit, "--out", tmp_path / "two", "--cache", tmp_path / "cache-2")
    assert resumed.code == 0, resumed.err
    assert sum(batches) == 96 + 16  # the batch that died was asked again, and no other
    one, two = Artefact.load(tmp_path / "one"), Artefact.load(tmp_path / "two")
    assert (one.binding.data, one.binding.feature_schema) == (two.binding.data, two.binding.feature_schema)
    assert (tmp_path / "one" / "tensors.safetensors").read_bytes() == (
        tmp_path / "two" / "tensors.safetensors"
    ).read_bytes()


def test_what_is_not_said_comes_from_the_settings_and_then_from_the_artefact(
    demur: Callable[..., Ran], asked: dict[str, Any], fact_world: Any, tmp_path: Path
) -> None:
    (tmp_path / "demur.toml").write_text(
        f'[models]\ndefault = "{fact_world.folder}"\n[tasks.facts]\ngrader = "abstain_ok"\nrefusal = "no idea"\n'
    )
    options = asked["model"][2:]
    fitted = demur("fit", "--data", asked["fit"], *options, "--task", "facts", "--out", tmp_path / "artefact")
    assert fitted.code == 0, fitted.err
    bound = Artefact.load(tmp_path / "artefact").binding
    assert (bound.grader, bound.grader_version) == ("abstain_ok", "1:refusal=no idea")
    shared = ("eval", "--data", asked["eval"], *options, "--artefact", tmp_path / "artefact", "--out", tmp_path / "out")
    assert demur(*shared).code == 0
    other = demur(*shared, "--refusal", "who knows")
    assert other.code == 3 and "refusal=who knows" in other.err


def test_a_full_disk_ends_with_one_and_leaves_no_artefact(
    demur: Callable[..., Ran], write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    data = write("fit.jsonl", graded_rows(100))
    monkeypatch.setattr(os, "fsync", full)
    ran = demur("fit", "--data", data, "--out", tmp_path / "artefact")
    assert ran.code == 1 and "No space left" in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["fit.jsonl"]


def test_graded_rows_from_end_to_end(demur: Callable[..., Ran], write: Any, tmp_path: Path) -> None:
    rows = graded_rows(400)
    rows[0]["logprobs"] = [float("nan"), None, -1.0]
    rows[1]["response"] = "one\u2028two"
    ran = demur("fit", "--data", write("fit.jsonl", rows), "--task", "calls", "--out", tmp_path / "artefact")
    assert ran.code == 0, ran.err
    assert Artefact.load(tmp_path / "artefact").binding.grader == "given"
    tested = graded_rows(200, start=1000)
    tested[0] = {**tested[0], "logprobs": None, "signals": {}, "id": "[red]\x1b[2J../x"}
    shared = ("--artefact", tmp_path / "artefact", "--out", tmp_path / "out")
    ran = demur("eval", "--data", write("eval.jsonl", tested), *shared)
    assert ran.code == 0, ran.err
    assert "\x1b[2J" not in ran.out
    metrics = metrics_of(tmp_path / "out")
    assert metrics["unavailable"]["value"] == 1
    assert metrics["auroc"]["value"] > 0.75
    assert metrics["brier_minus_base_rate"]["high"] < 0.0
    first = json.loads((tmp_path / "out" / "scores.jsonl").read_text().splitlines()[0])
    assert (first["id"], first["probability"]) == (tested[0]["id"], None)
    again = demur("eval", "--data", write("eval.jsonl", tested), *shared)
    assert again.code == 0 and metrics_of(tmp_path / "out") == metrics


def test_rows_met_in_fitting_are_refused(demur: Callable[..., Ran], write: Any, tmp_path: Path) -> None:
    data = write("fit.jsonl", graded_rows(100))
    assert demur("fit", "--data", data, "--out", tmp_path / "artefact").code == 0
    shared = ("eval", "--data", data, "--artefact", tmp_path / "artefact", "--out", tmp_path / "out")
    refused = demur(*shared)
    assert refused.code == 3 and "100 of 100 rows" in refused.err
    assert not (tmp_path / "out").exists()
    allowed = demur(*shared, "--allow-overlap")
    assert allowed.code == 0 and "flatter" in allowed.out
    assert metrics_of(tmp_path / "out")["overlap"]["value"] == 100


def test_too_few_labels_are_refused_and_nothing_is_written(
    demur: Callable[..., Ran], write: Any, tmp_path: Path
) -> None:
    rows = [{**row, "correct": number >= 9} for number, row in enumerate(graded_rows(60))]
    ran = demur("fit", "--data", write("fit.jsonl", rows), "--out", tmp_path / "artefact")
    assert ran.code == 3
    assert "51 right and 9 wrong graded rows" in ran.err and "1 more wrong" in ran.err
    assert not (tmp_path / "artefact").exists()


def test_bad_input_ends_with_two(demur: Callable[..., Ran], write: Any, asked: dict[str, Any], tmp_path: Path) -> None:
    rows = graded_rows(3)
    mixed = write("mixed.jsonl", [rows[0], {"id": "q", "question": "Q", "answers": ["x"]}])
    broken = tmp_path / "broken.jsonl"
    broken.write_text(json.dumps(rows[0]) + "\n{oops\n")
    clash = write("clash.jsonl", [{**rows[0], "signals": {"token.count": 1.0}}])
    good = write("good.jsonl", rows)
    out = ("--out", tmp_path / "artefact")
    cases: list[tuple[tuple[object, ...], str]] = [
        (("fit", "--data", mixed, *out), "mixed.jsonl:2: questions and graded responses are mixed"),
        (("fit", "--data", broken, *out), "broken.jsonl:2: not JSON"),
        (("fit", "--data", tmp_path / "none.jsonl", *out), "cannot be read"),
        (("fit", "--data", clash, *out), "row 'g0': signal 'token.count'"),
        (("fit", "--data", asked["fit"], *out), "give --model"),
        (("fit", "--data", good, *asked["model"][:2], *out), "--model would not be used"),
        (("fit", "--data", good, "--system", "x", *out), "--system would not be used"),
        (("fit", "--data", good, "--limit", 0, *out), "limit=0"),
        (("fit", "--data", asked["fit"], *asked["model"], "--grader", "alais", *out), "did you mean 'alias'"),
        (("fit", "--data", asked["fit"], *asked["model"], "--grader", "llm_judge", *out), "error is measured"),
        (("fit", "--data", asked["fit"], "--model", "acme:x", *out), "no provider 'acme'"),
        (("eval", "--data", good, "--artefact", tmp_path / "none", "--out", tmp_path / "o"), "is no artefact"),
        (("eval", "--data", good, "--out", tmp_path / "o"), "--artefact"),
        (("eval", "--data", good, "--artefact", tmp_path / "none", "--out", good), "is a file"),
    ]
    for arguments, said in cases:
        ran = demur(*arguments)
        assert ran.code == 2, (arguments, ran)
        assert said in ran.err, (arguments, ran.err)
    assert not (tmp_path / "artefact").exists()


def test_an_artefact_is_not_overwritten_unasked(demur: Callable[..., Ran], write: Any, tmp_path: Path) -> None:
    data = write("fit.jsonl", graded_rows(100))
    fit = ("fit", "--data", data, "--out", tmp_path / "artefact")
    assert demur(*fit).code == 0
    first = Artefact.load(tmp_path / "artefact").id
    refused = demur(*fit)
    assert refused.code == 2 and "not empty" in refused.err
    assert Artefact.load(tmp_path / "artefact").id == first
    assert demur(*fit, "--seed", 5, "--overwrite").code == 0
    assert Artefact.load(tmp_path / "artefact").id != first
    (tmp_path / "artefact" / "mine.txt").write_text("")
    assert demur(*fit, "--overwrite").code == 2
    assert demur("eval", "--data", data, "--artefact", tmp_path / "artefact", "--out", tmp_path / "artefact").code == 2


def test_a_limit_draws_the_same_rows_for_the_same_seed(demur: Callable[..., Ran], write: Any, tmp_path: Path) -> None:
    data = write("fit.jsonl", graded_rows(300))
    for name in ("one", "two"):
        assert demur("fit", "--data", data, "--limit", 120, "--seed", 3, "--out", tmp_path / name).code == 0
    assert demur("fit", "--data", data, "--limit", 120, "--seed", 4, "--out", tmp_path / "three").code == 0
    one, two, three = (Artefact.load(tmp_path / name).binding for name in ("one", "two", "three"))
    assert len(one.fit_ids) == 120
    assert one.fit_ids == two.fit_ids != three.fit_ids


def test_help_loads_no_heavy_library() -> None:
    script = (
        "import sys; sys.argv = ['demur', 'fit', '--help']\n"
        "from demur.integrations.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as end: assert end.code in (0, None), end.code\n"
        "heavy = {'torch', 'transformers', 'sklearn', 'scipy', 'faiss', 'sentence_transformers', 'langchain_core'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "--allow-overlap" not in ran.stdout and "--grader" in ran.stdout

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from demur.core.decision import Route, Stage
from demur.core.errors import ArtefactMismatch, BadInput, StoreError
from demur.core.evidence import CaptureRequest
from demur.core.protocols import Fingerprint
from demur.core.record import content_hash
from demur.core.signal import Signal
from demur.core.success_chance import SuccessChance
from demur.probes import artefact_files, binding
from demur.probes.artefact import Artefact
from demur.probes.binding import Binding, ModelBinding, hash_ids
from demur.probes.fit_head import fit_head
from demur.probes.head import Head
from demur.probes.signal_table import SignalTable

PRINT = Fingerprint(name="tiny", identity="aaaa", pinned=True, prompt="pppp", decoding="dddd")


def bound(**changed: object) -> Binding:
    fields = {
        "model": ModelBinding.of(PRINT),
        "task": "trivia",
        "extractor": "first-line",
        "grader": "alias",
        "grader_version": "1",
        "data": "ffff",
        "fit_ids": hash_ids(["q1", "q2"]),
        "hidden_layers": (1,),
        "lens_layers": (2, 4, 6),
        "created_at": datetime(2026, 11, 2, tzinfo=UTC),
        **changed,
    }
    return Binding(**fields)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def artefact(fitted: tuple) -> Artefact:
    chances = {"retrieve": SuccessChance(route=Route.RETRIEVE, intercept=0.3, slope=0.7, low=0.4, high=0.6, labels=90)}
    return Artefact({"answer/after": fitted[0]}, bound(), chances, ["a note with <b>markup</b>"])


@pytest.fixture
def folder(artefact: Artefact, tmp_path: Path) -> Path:
    return artefact.save(tmp_path / "artefact")


def rewrite(folder: Path, change: Callable[[dict], None], *, reseal: bool = True) -> None:
    path = folder / artefact_files.MANIFEST
    manifest = json.loads(path.read_text())
    change(manifest)
    if reseal:
        manifest.pop("id", None)
        manifest["id"] = content_hash(manifest)
    path.write_text(json.dumps(manifest))


def test_what_is_loaded_predicts_the_same_bit_for_bit(artefact: Artefact, folder: Path, fitted: tuple) -> None:
    again, (_, data) = Artefact.load(folder), fitted
    before, after = (a.heads["answer/after"] for a in (artefact, again))
    first, second = before.predict_table(data.table), after.predict_table(data.table)
    for name in ("probability", "low", "high", "share"):
        assert np.array_equal(getattr(first, name), getattr(second, name), equal_nan=True), name
    for row in range(30):
        signals, vectors = data.table.signals(row), data.table.vectors(row)
        assert before.predict(signals, vectors) == after.predict(signals, vectors)
    assert again.id == artefact.id
    assert again.binding == artefact.binding
    assert again.chances == artefact.chances
    assert again.notes == artefact.notes
    for name in ("log_odds", "probability", "correct", "groups", "folds", "weights"):
        kept, read = getattr(before.out_of_fold, name), getattr(after.out_of_fold, name)
        assert np.array_equal(kept, read, equal_nan=True), name
    assert (before.tier, before.brier, before.notes) == (after.tier, after.brier, after.notes)


@pytest.mark.parametrize("seed", range(6))
def test_every_tier_and_calibrator_survives(seed: int, rows: Callable, tmp_path: Path) -> None:
    n = (36, 70, 130, 260, 460, 700)[seed]
    data = rows(n, seed=seed, width=6, missing=0.1, strength=(0.2, 1.0, 3.0)[seed % 3])
    head = fit_head(data.table, data.correct, None, arm="retrieve", stage=Stage.AFTER, replicas=10, seed=seed)
    Artefact({"retrieve/after": head}, bound()).save(tmp_path / "a")
    again = Artefact.load(tmp_path / "a").heads["retrieve/after"]
    new = rows(50, seed=77, width=6, missing=0.3)
    first, second = head.predict_table(new.table), again.predict_table(new.table)
    assert np.array_equal(first.probability, second.probability, equal_nan=True)
    assert np.array_equal(first.low, second.low, equal_nan=True)
    assert np.array_equal(first.high, second.high, equal_nan=True)


def test_the_id_is_of_the_content(artefact: Artefact, fitted: tuple) -> None:
    same = Artefact(artefact.heads, artefact.binding, artefact.chances, artefact.notes)
    other = Artefact(artefact.heads, bound(data="eeee"), artefact.chances, artefact.notes)
    assert same.id == artefact.id
    assert other.id != artefact.id
    assert artefact.calibrator_id("answer", Stage.AFTER) == f"{artefact.id[:16]}:answer/after"
    assert artefact.head("answer", Stage.AFTER) is fitted[0]
    assert artefact.head("answer", Stage.BEFORE) is None


def test_nothing_in_the_folder_is_a_pickle(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "tensors.safetensors"]
    assert not (folder / "tensors.safetensors").read_bytes().startswith((b"\x80", b"PK"))


def test_a_changed_tensor_file_is_refused(folder: Path) -> None:
    path = folder / artefact_files.TENSORS
    blob = bytearray(path.read_bytes())
    blob[-5] ^= 1
    path.write_bytes(bytes(blob))
    with pytest.raises(ArtefactMismatch, match="was changed"):
        Artefact.load(folder)


def test_a_changed_manifest_is_refused(folder: Path) -> None:
    rewrite(folder, lambda m: m["binding"].update(task="other"), reseal=False)
    with pytest.raises(ArtefactMismatch, match="was changed"):
        Artefact.load(folder)


def set_head(key: str, value: object) -> Callable[[dict], None]:
    return lambda manifest: manifest["heads"]["answer/after"].update({key: value})


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(version=2),
        lambda m: m.update(format="pickle"),
        lambda m: m.pop("binding"),
        lambda m: m["binding"].update(surprise=1),
        lambda m: m.update(heads=[]),
        lambda m: m["heads"].update({"answer/before": m["heads"]["answer/after"]}),
        lambda m: m["heads"].clear(),
        lambda m: m["chances"]["retrieve"].update(low=2.0),
        lambda m: m["heads"]["answer/after"].pop("C"),
        set_head("labels", 699),
        set_head("right", 1),
        set_head("stage", "during"),
        set_head("columns", [0, 0, 1]),
        set_head("columns", [0, 99]),
        set_head("columns", []),
        set_head("vectors", []),
        set_head("vectors", ["answer_mean.L9"]),
        set_head("replica_calibrators", []),
        set_head("calibrator", {"name": "os"}),
        set_head("fitted_at", "yesterday"),
        set_head("min_informative", "x"),
        set_head("min_informative", 7.0),
    ],
)
def test_a_resealed_manifest_that_does_not_fit_together_is_bad_input(
    folder: Path, change: Callable[[dict], None]
) -> None:
    rewrite(folder, change)
    with pytest.raises((BadInput, ArtefactMismatch)):
        Artefact.load(folder)


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("answer/after|fusion.coefficients", lambda a: np.full_like(a, np.nan)),
        ("answer/after|fusion.scale", lambda a: -a),
        ("answer/after|fusion.covariance", lambda a: -a),
        ("answer/after|fusion.centre", lambda a: a[:-1]),
        ("answer/after|replicas.coefficients", lambda a: a.astype(np.float32)),
        ("answer/after|probe.answer_mean.L1.direction", lambda a: np.full_like(a, np.inf)),
        ("answer/after|rows.log_odds", lambda a: np.full_like(a, np.inf)),
        ("answer/after|stranger", lambda a: np.zeros(2)),
        ("nobody|fusion.scale", lambda a: np.zeros(2)),
    ],
)
def test_arrays_that_are_not_what_they_should_be_are_bad_input(
    folder: Path, name: str, spoil: Callable[[np.ndarray | None], np.ndarray]
) -> None:
    from hashlib import sha256

    from safetensors.numpy import load, save

    path = folder / artefact_files.TENSORS
    arrays = load(path.read_bytes())
    arrays[name] = np.ascontiguousarray(spoil(arrays.get(name)))
    path.write_bytes(save(arrays))
    rewrite(folder, lambda m: m.update(tensors=sha256(path.read_bytes()).hexdigest()))
    with pytest.raises(BadInput):
        Artefact.load(folder)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"format": NaN}', "\x80\x04pickle", "[" * 100_000])
def test_a_manifest_that_is_no_manifest(folder: Path, text: str) -> None:
    (folder / artefact_files.MANIFEST).write_text(text, encoding="latin-1")
    with pytest.raises(BadInput):
        Artefact.load(folder)


def test_missing_files_are_bad_input(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="demur fit"):
        Artefact.load(tmp_path / "nowhere")
    (folder / artefact_files.TENSORS).unlink()
    with pytest.raises(BadInput, match=r"no readable tensors\.safetensors"):
        Artefact.load(folder)


def test_saving_replaces_whole_or_not_at_all(
    artefact: Artefact, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadInput, match="not empty"):
        artefact.save(folder)
    newer = Artefact(artefact.heads, bound(task="newer"))

    def full_disk(path: Path, data: bytes) -> None:
        path.write_bytes(data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(artefact_files, "_write", full_disk)
        with pytest.raises(StoreError, match="No space left"):
            newer.save(folder, overwrite=True)
        with pytest.raises(StoreError, match="No space left"):
            newer.save(tmp_path / "fresh")
    assert Artefact.load(folder).id == artefact.id
    assert [path.name for path in tmp_path.iterdir()] == ["artefact"]
    newer.save(folder, overwrite=True)
    assert Artefact.load(folder).binding.task == "newer"
    assert [path.name for path in tmp_path.iterdir()] == ["artefact"]


def test_other_peoples_files_are_not_overwritten(artefact: Artefact, folder: Path, tmp_path: Path) -> None:
    (folder / "thesis.tex").write_text("years of work")
    with pytest.raises(BadInput, match=r"thesis\.tex"):
        artefact.save(folder, overwrite=True)
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadInput, match="name a folder"):
        artefact.save(tmp_path / "file", overwrite=True)
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(BadInput, match="name a folder"):
        artefact.save(tmp_path / "link", overwrite=True)
    (tmp_path / "empty").mkdir()
    assert artefact.save(tmp_path / "empty") == tmp_path / "empty"
    assert Artefact.load(shutil.copytree(tmp_path / "empty", tmp_path / "copy")).id == artefact.id


def test_what_fits_passes_and_what_does_not_is_named(artefact: Artefact) -> None:
    artefact.check(PRINT, task="trivia", extractor="first-line", grader=("alias", "1"), signals=artefact.signal_names)
    artefact.check(replace(PRINT, name="the same under another name"))
    artefact.check()
    other = Fingerprint(name="large", identity="bbbb", pinned=True, prompt="qqqq", decoding="eeee")
    with pytest.raises(ArtefactMismatch) as caught:
        artefact.check(other, task="law", extractor="all", grader=("alias", "2"), signals=["s0"])
    message = str(caught.value)
    for part in ("aaaa", "bbbb", "pppp", "qqqq", "dddd", "eeee", "trivia", "law", "first-line", "alias 2", "s1"):
        assert part in message
    assert "demur fit" in message


def test_escalation_targets_are_bound_too(artefact: Artefact, fitted: tuple) -> None:
    large = replace(PRINT, name="large", identity="llll")
    head = replace(fitted[0], arm="escalate:large")
    with_target = Artefact({head.key: head}, bound(targets={"large": ModelBinding.of(large)}))
    with_target.check(PRINT, targets={"large": large, "unfitted": PRINT})
    with pytest.raises(ArtefactMismatch, match="escalation target large"):
        with_target.check(PRINT, targets={"large": replace(large, identity="mmmm")})
    with pytest.raises(ArtefactMismatch, match="no fingerprint"):
        Artefact({head.key: head}, bound()).check(PRINT, targets={"large": large})


def test_signals_that_came_to_mean_something_else_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "SIGNAL_VERSION", binding.SIGNAL_VERSION + 1)
    with pytest.raises(ArtefactMismatch, match="feature schema"):
        Artefact.load(folder)


def test_a_head_under_another_key_is_refused(fitted: tuple) -> None:
    with pytest.raises(BadInput, match="filed under"):
        Artefact({"answer/before": fitted[0]}, bound())


def test_rows_met_before_are_found(artefact: Artefact) -> None:
    assert artefact.overlap(["q1", "q3", "q2"]) == ("q1", "q2")
    assert "q1" not in json.dumps(artefact.binding.fit_ids)


def head_on(names: list[str], hidden: dict | None = None) -> Head:
    draw = np.random.default_rng(0)
    values = draw.normal(size=(240, len(names)))
    table = SignalTable(tuple(names), values, hidden or {})
    correct = draw.random(240) < 1 / (1 + np.exp(-values[:, 0]))
    return fit_head(table, correct, None, arm="answer", stage=Stage.AFTER, replicas=10)


def test_needed_capture_asks_for_what_the_heads_read() -> None:
    plain = Artefact({"answer/after": head_on(["token.mean_logprob"])}, bound())
    assert plain.needed_capture() == CaptureRequest(top_k=0, hidden_layers=(), lens_layers=None)
    vectors = {"answer_mean.L7": np.random.default_rng(1).normal(size=(240, 5))}
    lens = head_on(["lens.kl.L4", "token.mean_margin"], vectors)
    assert Artefact({"answer/after": lens}, bound()).needed_capture() == CaptureRequest(5, (7,), (2, 4, 6))
    pooled = Artefact({"answer/after": head_on(["lens.kl.mean"])}, bound())
    assert pooled.needed_capture().lens_layers == (2, 4, 6)
    assert pooled.signal_names == ("lens.kl.mean",)


def test_a_confidence_carries_the_id_it_is_given(artefact: Artefact, fitted: tuple) -> None:
    head, data = fitted
    signals: list[Signal] = data.table.signals(0)
    got = head.predict(signals, data.table.vectors(0), calibrator=artefact.calibrator_id("answer", Stage.AFTER))
    assert getattr(got, "calibrator", "") == f"{artefact.id[:16]}:answer/after"

"""Heads by every method of fusion: fitted without a row's own grade, stored, loaded and explained."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from demur.core.confidence import Confidence
from demur.core.decision import Stage
from demur.core.errors import BadInput, ConfigurationError
from demur.core.record import content_hash
from demur.probes import artefact_files
from demur.probes.access import Access
from demur.probes.artefact import Artefact
from demur.probes.binding import Binding, ModelBinding
from demur.probes.calibration.base import logit
from demur.probes.ensemble_fusion import BoostedFusion, ForestFusion
from demur.probes.fit_head import fit_head
from demur.probes.fusion import LogisticFusion
from demur.probes.fusion_settings import BoostedSettings, ForestSettings, FusionSettings
from demur.probes.head import Head
from demur.probes.head_storage import head_from_parts, head_to_parts
from demur.probes.stacked_fusion import StackedFusion

SMALL = FusionSettings(
    forest=ForestSettings(trees=15, depth=8, max_features=3, leaf=5),
    boosted=BoostedSettings(rounds=12, rate=0.2, leaves=5, leaf=15, l2=1.0, bins=16, share=1.0, monotone=True),
    fold_trees=10,
    cross_fit_trees=5,
)
WHEN = datetime(2026, 11, 1, tzinfo=UTC)
METHODS = {"forest": ForestFusion, "boosted": BoostedFusion, "stacked": StackedFusion}


def head_of(data, method: str, groups: np.ndarray | None = None, **more) -> Head:
    options = {"arm": "answer", "stage": Stage.AFTER, "replicas": 10, "fitted_at": WHEN, "settings": SMALL, **more}
    return fit_head(data.table, data.correct, groups, method=method, **options)


@pytest.fixture(scope="module")
def data(rows: Callable):
    return rows(440, seed=3, width=12, missing=0.05)


@pytest.fixture(scope="module")
def heads(data) -> dict[str, Head]:
    return {method: head_of(data, method) for method in METHODS}


def artefact_of(head: Head) -> Artefact:
    model = ModelBinding(name="m", identity="i", pinned=True, prompt="p", decoding="d")
    fields = {"task": "t", "extractor": "e", "grader": "g", "grader_version": "1", "data": "d", "created_at": WHEN}
    return Artefact({head.key: head}, Binding.model_validate({"model": model, **fields}))


def test_auto_is_logistic_under_a_hundred_and_stacked_from_there_on(rows: Callable) -> None:
    few, many = rows(150, seed=1), rows(330, seed=1)
    assert min(few.correct.sum(), 150 - few.correct.sum()) < 100 <= min(many.correct.sum(), 330 - many.correct.sum())
    assert isinstance(head_of(few, "auto").fusion, LogisticFusion)
    assert isinstance(head_of(many, "auto").fusion, StackedFusion)
    assert isinstance(fit_head(many.table, many.correct, None, arm="answer", stage=Stage.AFTER).fusion, LogisticFusion)
    with pytest.raises(ConfigurationError, match="svm"):
        head_of(few, "svm")


@pytest.mark.parametrize("method", METHODS)
def test_better_than_the_base_rate_on_new_rows(method: str, heads: dict, rows: Callable) -> None:
    head = heads[method]
    assert isinstance(head.fusion, METHODS[method])
    new = rows(2000, seed=99, width=12, missing=0.05)
    said = head.predict_table(new.table)
    there = said.available
    assert there.mean() > 0.95
    brier = np.mean((said.probability[there] - new.correct[there]) ** 2)
    assert brier < 0.85 * new.correct.mean() * (1 - new.correct.mean())
    assert brier == pytest.approx(np.nanmean((head.out_of_fold.probability - head.out_of_fold.correct) ** 2), abs=0.03)


@pytest.mark.parametrize("method", METHODS)
def test_a_rows_own_grade_does_not_reach_its_out_of_fold_score(method: str, rows: Callable) -> None:
    # Groups that hold one right and one wrong row keep the folds as they are when their two grades are swapped.
    data = rows(240, seed=5, width=8)
    correct, groups = np.tile([1.0, 0.0], 120), np.arange(240) // 2
    options = {"arm": "answer", "stage": Stage.AFTER, "replicas": 10, "settings": SMALL, "method": method}
    first = fit_head(data.table, correct, groups, **options).out_of_fold
    inside = first.folds == 0
    swapped = np.where(inside, 1.0 - correct, correct)
    second = fit_head(data.table, swapped, groups, **options).out_of_fold
    assert (first.folds == second.folds).all()
    assert (first.log_odds[inside] == second.log_odds[inside]).all()
    assert (first.log_odds[~inside] != second.log_odds[~inside]).any()


@pytest.mark.parametrize("method", METHODS)
def test_one_call_equals_its_row_and_its_contributions_add_up(method: str, heads: dict, data) -> None:
    head = heads[method]
    table = head.predict_table(data.table)
    fused = head.fusion.predict(head.values(data.table))
    for row in range(25):
        said = head.predict(data.table.signals(row), data.table.vectors(row))
        if not table.available[row]:
            assert not isinstance(said, Confidence)
            continue
        assert isinstance(said, Confidence)
        assert said.value == pytest.approx(table.probability[row], abs=1e-12)
        assert (said.interval.low, said.interval.high) == pytest.approx((table.low[row], table.high[row]), abs=1e-12)
        base = head.calibrator.predict(fused.average[row : row + 1])[0]
        total = sum(part.log_odds for part in said.contributions)
        assert total == pytest.approx(float(logit(said.value) - logit(base)), abs=1e-6)
        assert {part.signal for part in said.contributions}.isdisjoint(said.missing)


def test_members_are_reported_and_refits_move_the_interval(heads: dict, data) -> None:
    head = heads["stacked"]
    assert set(head.members) == {"logistic", "forest", "boosted", "vectors"}
    for name, weight in zip(head.fusion.voices_, head.fusion.weights_, strict=True):
        assert head.members[name]["weight"] == weight
        assert 0.55 < head.members[name]["auroc"] < 0.95
        assert 0.1 < head.members[name]["brier"] < 0.3
    assert heads["forest"].members == {} == heads["boosted"].members
    assert head.replicas.stacks is not None
    assert head.replicas.stacks.shape == (10, 5)
    assert np.unique(head.replicas.stacks, axis=0).shape == (10, 5)
    said = head.predict_table(data.table)
    assert (said.high - said.low)[said.available].min() > 0.0


@pytest.mark.parametrize("method", METHODS)
def test_what_is_loaded_says_the_same_bit_for_bit(method: str, heads: dict, tmp_path: Path, rows: Callable) -> None:
    head = heads[method]
    artefact = artefact_of(head)
    again = Artefact.load(artefact.save(tmp_path / "a"))
    assert again.id == artefact.id
    loaded = again.heads["answer/after"]
    new = rows(300, seed=8, width=12, missing=0.2)
    for name in ("probability", "low", "high", "share"):
        mine, other = getattr(head.predict_table(new.table), name), getattr(loaded.predict_table(new.table), name)
        assert np.array_equal(mine, other, equal_nan=True), name
    for row in range(10):
        signals, vectors = new.table.signals(row), new.table.vectors(row)
        assert head.predict(signals, vectors) == loaded.predict(signals, vectors)
    assert loaded.members == head.members
    assert type(loaded.fusion) is type(head.fusion)


def test_the_same_seed_gives_the_same_artefact(rows: Callable) -> None:
    data = rows(200, seed=2, width=6)
    first, second = (artefact_of(head_of(data, "stacked")).id for _ in range(2))
    assert first == second
    assert artefact_of(head_of(data, "stacked", seed=1)).id != first


def test_a_logistic_head_is_stored_as_before(rows: Callable) -> None:
    meta, arrays = head_to_parts(head_of(rows(100, seed=0), "logistic"))
    assert {"method", "method_version", "access", "members", "member_scores", "voices"}.isdisjoint(meta)
    assert not any(name.startswith(("stack", "member", "replicas.stacks")) for name in arrays)
    loaded = head_from_parts(meta, dict(arrays))
    assert isinstance(loaded.fusion, LogisticFusion)
    assert loaded.access is Access.WHITE


def test_weights_reach_every_member(rows: Callable) -> None:
    # Rows that were right were graded one time in four.
    data = rows(1600, seed=8)
    graded = ~data.correct | (np.random.default_rng(0).random(1600) < 0.25)
    weights = np.where(data.correct, 4.0, 1.0)[graded]
    options = {"arm": "answer", "stage": Stage.AFTER, "replicas": 10, "settings": SMALL, "method": "stacked"}
    head = fit_head(data.table.take(graded), data.correct[graded], None, weights=weights, **options)
    new = rows(2000, seed=9)
    voices = head.fusion.voices(head.values(new.table))
    assert head.predict_table(new.table).probability.mean() == pytest.approx(new.correct.mean(), abs=0.04)
    for said in voices.T:
        assert (1 / (1 + np.exp(-said))).mean() == pytest.approx(new.correct.mean(), abs=0.06)


def spoilt(folder: Path, change: Callable[[dict, dict], None]) -> Path:
    """The artefact with changed manifest and arrays, sealed again."""
    from safetensors.numpy import load, save

    tensors, path = folder / artefact_files.TENSORS, folder / artefact_files.MANIFEST
    arrays, manifest = load(tensors.read_bytes()), json.loads(path.read_text())
    change(manifest["heads"]["answer/after"], arrays)
    tensors.write_bytes(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))
    manifest["tensors"] = sha256(tensors.read_bytes()).hexdigest()
    manifest.pop("id")
    path.write_text(json.dumps({**manifest, "id": content_hash(manifest)}))
    return folder


@pytest.fixture
def folder(heads: dict, tmp_path: Path) -> Path:
    return artefact_of(heads["stacked"]).save(tmp_path / "artefact")


def test_an_unspoilt_artefact_of_trees_loads(folder: Path) -> None:
    Artefact.load(spoilt(folder, lambda meta, arrays: None))


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(method="pickle"),
        lambda m: m.update(method="logistic"),
        lambda m: m.update(method="forest"),
        lambda m: m.update(method=["stacked"]),
        lambda m: m.update(method_version=2),
        lambda m: m.pop("method"),
        lambda m: m.pop("method_version"),
        lambda m: m.update(voices=[]),
        lambda m: m.update(voices=["logistic", "forest", "boosted", "oracle"]),
        lambda m: m.update(voices=["logistic", "logistic", "boosted", "vectors"]),
        lambda m: m.update(voices=["logistic", "forest", "boosted"]),
        lambda m: m["members"].pop("forest"),
        lambda m: m["members"].update(logistic={}),
        lambda m: m["members"]["forest"].update(rows=0),
        lambda m: m["members"]["forest"].update(rows="many"),
        lambda m: m["members"]["forest"].update(rows=True),
        lambda m: m["members"]["boosted"].update(start="x"),
        lambda m: m["members"]["vectors"].pop("intercept"),
        lambda m: m.update(access="pink"),
        lambda m: m["member_scores"].update(forest={"auroc": "high"}),
    ],
)
def test_a_manifest_that_does_not_fit_is_bad_input(folder: Path, change: Callable[[dict], None]) -> None:
    with pytest.raises(BadInput):
        Artefact.load(spoilt(folder, lambda meta, arrays: change(meta)))


def edit(name: str, act: Callable[[np.ndarray], np.ndarray | None]) -> Callable[[dict], None]:
    def change(arrays: dict) -> None:
        key = f"answer/after|{name}"
        array = arrays[key].copy()
        made = act(array)
        arrays[key] = array if made is None else made

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.pop("answer/after|member.forest.right"),
        lambda a: a.pop("answer/after|stack.weights"),
        lambda a: a.pop("answer/after|replicas.stacks"),
        edit("member.forest.right", np.zeros_like),
        edit("member.forest.right", lambda x: x + 1),
        edit("member.forest.right", lambda x: x.astype(np.int64)),
        edit("member.forest.right", lambda x: x[:-1]),
        edit("member.forest.right", lambda x: np.full_like(x, np.iinfo(np.int32).max)),
        edit("member.forest.right", lambda x: np.full_like(x, np.iinfo(np.int32).min)),
        edit("member.boosted.feature", lambda x: np.where(x >= 0, 99, x).astype(x.dtype)),
        edit("member.boosted.threshold", lambda x: np.full_like(x, np.nan)),
        edit("member.boosted.value", lambda x: np.full_like(x, np.inf)),
        edit("member.boosted.roots", lambda x: x[::-1]),
        edit("member.boosted.roots", lambda x: x[:0]),
        edit("member.forest.value", lambda x: x + 1.0),
        edit("member.vectors.coefficients", lambda x: x[:-1]),
        edit("member.vectors.coefficients", lambda x: np.full_like(x, np.nan)),
        edit("stack.weights", lambda x: -x - 1.0),
        edit("stack.weights", lambda x: x[:-1]),
        edit("stack.bias", lambda x: np.full_like(x, np.inf)),
        edit("replicas.stacks", lambda x: x[:, :-1]),
        edit("replicas.stacks", lambda x: np.full_like(x, np.nan)),
        edit("replicas.stacks", lambda x: -np.abs(x) - 1.0),
        lambda a: a.update({"answer/after|member.oracle.value": np.zeros(2)}),
    ],
)
def test_arrays_that_are_no_trees_are_bad_input(folder: Path, change: Callable[[dict], None]) -> None:
    with pytest.raises(BadInput):
        Artefact.load(spoilt(folder, lambda meta, arrays: change(arrays)))

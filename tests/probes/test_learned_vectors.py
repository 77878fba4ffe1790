"""What is learned from vectors: one hidden layer, all layers in one (LENS), semantic alignment, and their reduction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from demur.core.call import Call
from demur.core.decision import Stage
from demur.core.errors import BadInput, ConfigurationError, NotEnoughLabels
from demur.core.evidence import Captured, Evidence, Need
from demur.probes.concatenated_states import ConcatenatedStates, concatenate
from demur.probes.hidden_layer import HiddenLayer, fit_hidden_layer
from demur.probes.hidden_state import HiddenStateProbe
from demur.probes.reduction import fit_reduction
from demur.probes.semantic_alignment import SemanticAlignment

DRAW = np.random.default_rng(0)


def ring(n: int = 400, width: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Right inside a circle: no line tells it, one hidden layer does."""
    x = DRAW.normal(size=(n, width))
    return x, ((x[:, :2] ** 2).sum(axis=1) < 1.4).astype(float)


def test_a_hidden_layer_by_hand() -> None:
    # max(1·x - 1, 0)·2 + max(-1·x, 0)·3 + ½ at x = 2 and x = -1: 2 + ½ and 3 + ½.
    layer = HiddenLayer(np.array([[1.0, -1.0]]), np.array([-1.0, 0.0]), np.array([2.0, 3.0]), 0.5)
    assert layer.log_odds(np.array([[2.0], [-1.0]])) == pytest.approx([2.5, 3.5])
    with pytest.raises(BadInput, match="are needed"):
        HiddenLayer(np.ones((1, 2)), np.ones(3), np.ones(2), 0.0)
    with pytest.raises(BadInput, match="finite"):
        HiddenLayer(np.array([[np.nan]]), np.ones(1), np.ones(1), 0.0)


def test_it_equals_the_network_it_was_fitted_by() -> None:
    from sklearn.neural_network import MLPClassifier

    x, y = ring(200, 3)
    layer = fit_hidden_layer(x, y, np.ones(200), 0.1, units=4, seed=1)
    model = MLPClassifier((4,), solver="lbfgs", alpha=10.0, random_state=1, max_iter=200).fit(x, y.astype(int))
    p = model.predict_proba(x)[:, 1]
    assert layer.log_odds(x) == pytest.approx(np.log(p / (1 - p)), abs=1e-6)


def test_one_hidden_layer_sees_what_no_line_shows_and_survives_storage() -> None:
    (x, y), (later, truth) = ring(), ring(300)
    folds = np.arange(400) % 4
    linear = HiddenStateProbe("answer_mean.L2").fit(x, y, folds=folds)
    bent = HiddenStateProbe("answer_mean.L2", hidden_units=16).fit(x, y, folds=folds)
    assert roc_auc_score(truth, bent.scores(later)) > 0.9 > 0.65 > roc_auc_score(truth, linear.scores(later))
    again = HiddenStateProbe.from_arrays("answer_mean.L2", bent.to_arrays())
    assert again.scores(later) == pytest.approx(bent.scores(later))
    broken = bent.to_arrays() | {"output_weights": np.ones(3)}
    with pytest.raises(BadInput, match="output_weights"):
        HiddenStateProbe.from_arrays("answer_mean.L2", broken)
    with pytest.raises(ConfigurationError, match="hidden_units"):
        HiddenStateProbe("answer_mean.L2", hidden_units=2000)


def test_reduction_keeps_what_stands_beside() -> None:
    x = DRAW.normal(size=(60, 9))
    reduction, reduced = fit_reduction(x, 3, seed=0, beside=2)
    assert reduced.shape == (60, 5)
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    assert reduced[:, 3:] == pytest.approx(z[:, 7:])
    assert reduced == pytest.approx(z @ reduction.basis.T)
    _, constant = fit_reduction(np.ones((5, 2)), 8, seed=0)
    assert np.isfinite(constant).all()


def layers(n: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Two layers of which each tells half, and two options' probabilities that tell the rest."""
    draw = np.random.default_rng(seed)
    parts = draw.normal(size=(n, 3))
    correct = (draw.random(n) < 1 / (1 + np.exp(-2 * parts.sum(axis=1)))).astype(float)
    share = 1 / (1 + np.exp(-parts[:, 2]))
    return {
        "prompt_last.L1": np.column_stack([parts[:, 0], draw.normal(size=n)]).astype(np.float32),
        "prompt_last.L2": np.column_stack([draw.normal(size=n), parts[:, 1]]).astype(np.float32),
        "options": np.column_stack([share, 1 - share]).astype(np.float32) * 0.5,
    }, correct


def test_all_layers_and_the_options_tell_more_than_one_layer() -> None:
    (hidden, y), (later, truth) = layers(600, 1), layers(600, 2)
    folds = np.arange(600) % 4
    with_options = ConcatenatedStates("prompt_last", (1, 2), options="options").fit(hidden, y, folds=folds)
    without = ConcatenatedStates("prompt_last", (2, 1)).fit(hidden, y, folds=folds)
    one = HiddenStateProbe("prompt_last.L1").fit(hidden["prompt_last.L1"], y, folds=folds)
    found = [
        roc_auc_score(truth, scores)
        for scores in (with_options.scores(later), without.scores(later), one.scores(later["prompt_last.L1"]))
    ]
    assert found[0] > found[1] + 0.02 > found[2] + 0.04
    assert (with_options.name, with_options.stage) == ("hidden.prompt_last.all", Stage.BEFORE)
    assert ConcatenatedStates("answer_last", (1,)).stage is Stage.AFTER
    again = ConcatenatedStates.from_arrays("prompt_last", (1, 2), with_options.to_arrays(), options="options")
    assert again.scores(later) == pytest.approx(with_options.scores(later))


def test_one_call_and_a_table_agree_and_what_is_missing_is_unavailable() -> None:
    hidden, y = layers(200, 3)
    probe = ConcatenatedStates("prompt_last", (1, 2), options="options")

    def measured(vectors: dict[str, Any]) -> Any:
        (signal,) = probe.measure(Evidence(call=Call.ask("q"), captured=Captured(hidden=vectors)))
        assert signal.name == probe.signal_names[0]
        return signal

    row = {name: block[0] for name, block in hidden.items()}
    assert not measured(row).available  # not fitted
    probe.fit(hidden, y)
    assert measured(row).value == pytest.approx(probe.scores(hidden)[0], abs=1e-5)
    assert not measured({name: value for name, value in row.items() if name != "prompt_last.L2"}).available
    assert not measured(row | {"options": np.zeros(2)}).available
    assert not measured(row | {"options": np.array([-1.0, 2.0])}).available
    with pytest.raises(BadInput, match="missing"):
        probe.scores({})
    with pytest.raises(ConfigurationError):
        ConcatenatedStates("answer_mean", (1,))  # type: ignore[arg-type]


def test_concatenation_is_in_the_order_of_layers() -> None:
    hidden = {"answer_last.L2": [3.0], "answer_last.L1": [1.0, 2.0]}
    assert concatenate(hidden, "answer_last", (2, 1)).tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(BadInput, match="L3"):
        concatenate(hidden, "answer_last", (1, 3))


def aligned(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """States of right rows are a turned embedding; those of wrong rows are noise."""
    turn = np.linalg.qr(np.random.default_rng(9).normal(size=(5, 5)))[0]
    draw = np.random.default_rng(seed)
    embeddings = draw.normal(size=(n, 5))
    correct = draw.random(n) < 0.5
    states = np.where(correct[:, None], embeddings @ turn, draw.normal(size=(n, 5))) + draw.normal(size=(n, 5)) * 0.2
    return states, embeddings, correct.astype(float)


def test_semantic_alignment_is_high_where_a_question_was_taken_up() -> None:
    (x, e, y), (later, reference, truth) = aligned(300, 1), aligned(300, 2)
    probe = SemanticAlignment("prompt_last.L8", "question.minilm").fit(x, e, y)
    found = probe.scores(later, reference)
    assert roc_auc_score(truth, found) > 0.95
    assert found[truth == 1].mean() > 0.9 and abs(found[truth == 0].mean()) < 0.2
    assert (probe.name, probe.stage, probe.needs) == (
        "semantic.prompt_last.L8",
        Stage.BEFORE,
        frozenset({Need.HIDDEN_STATES}),
    )
    again = SemanticAlignment.from_arrays("prompt_last.L8", "question.minilm", probe.to_arrays())
    assert again.scores(later, reference) == pytest.approx(found)


def test_semantic_alignment_by_hand() -> None:
    # P is the identity up to the penalty: cos of (1, 1) and (1, 0) is 1/√2, of opposites -1.
    states = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]] * 10)
    probe = SemanticAlignment("prompt_last.L1", "question.e", alpha=1e-9, offset=False).fit(states, states, [1] * 40)
    assert probe.scores([[1.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [-1.0, 0.0]]) == pytest.approx([2**-0.5, -1.0])
    assert np.isnan(probe.scores([[0.0, 0.0]], [[1.0, 0.0]])).all()


def test_rows_are_judged_by_a_projection_that_did_not_see_them() -> None:
    x, e, y = aligned(120, 3)
    noise = np.random.default_rng(4).normal(size=x.shape)
    probe = SemanticAlignment("prompt_last.L1", "question.e", alpha=1.0)
    seen = probe.fit(noise, e, y).scores(noise, e)
    unseen = probe.out_of_fold(noise, e, y, np.arange(120) % 4)
    # States that tell nothing: seen rows look aligned where they were right, unseen ones do not.
    assert roc_auc_score(y, seen) > roc_auc_score(y, unseen) and abs(roc_auc_score(y, unseen) - 0.5) < 0.12


def test_semantic_alignment_refuses_what_it_cannot_use() -> None:
    x, e, y = aligned(60, 5)
    with pytest.raises(NotEnoughLabels, match="20 are needed"):
        SemanticAlignment("prompt_last.L1", "question.e").fit(x[:30], e[:30], y[:30] * (np.arange(30) < 8))
    for names in (("answer_mean.L1", "question.e"), ("prompt_last.L1", "answer_text.e")):
        with pytest.raises(ConfigurationError):
            SemanticAlignment(*names)
    with pytest.raises(ConfigurationError, match="alpha"):
        SemanticAlignment("prompt_last.L1", "question.e", alpha=0.0)
    probe = SemanticAlignment("prompt_last.L1", "question.e")
    evidence = Evidence(call=Call.ask("q"), captured=Captured(hidden={"prompt_last.L1": np.zeros(5, np.float32)}))
    assert not probe.measure(evidence)[0].available
    assert not probe.fit(x, e, y).measure(evidence)[0].available
    with pytest.raises(BadInput, match="fitted on"):
        probe.scores(x[:, :2], e)


def test_the_linear_probe_is_scikit_learns_regression_on_the_components() -> None:
    x, y = ring(150, 4)
    probe = HiddenStateProbe("answer_last.L1", components=4).fit(x, y, C=0.1)
    _, reduced = fit_reduction(x, 4, seed=0)
    model = LogisticRegression(C=0.1, tol=1e-10, max_iter=1000).fit(reduced, y)
    assert probe.scores(x) == pytest.approx(model.decision_function(reduced), abs=1e-3)

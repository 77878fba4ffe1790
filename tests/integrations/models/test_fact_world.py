"""The closed world: what the model saw often it answers surely and rightly; what it never saw it does not."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from demur.core.call import Call


def test_confidence_has_a_ground_truth(fact_world: Any) -> None:
    generations = fact_world.model.generate_batch([Call.ask(row.question) for row in fact_world.rows], batch_size=48)
    surprise: dict[str, list[float]] = {"often": [], "rarely": [], "never": []}
    right: dict[str, list[bool]] = {"often": [], "rarely": [], "never": []}
    for row, generation in zip(fact_world.rows, generations, strict=True):
        surprise[row.frequency].append(float(np.mean(generation.response.trace.answer_logprobs)))
        right[row.frequency].append(generation.response.text == row.answer)
    labels = [1] * len(surprise["often"]) + [0] * len(surprise["never"])
    auroc = roc_auc_score(labels, surprise["often"] + surprise["never"])
    assert auroc > 0.8
    assert np.mean(right["often"]) > 0.8
    assert np.mean(right["never"]) < 0.4

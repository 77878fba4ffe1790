"""The interval of a calibrator that gives one arrives in the confidence."""

from __future__ import annotations

import numpy as np
import pytest

from demur.core.confidence import Confidence
from demur.core.decision import Stage
from demur.core.signal import Signal
from demur.probes.calibration.base import sigmoid
from demur.probes.fit_head import fit_head
from demur.probes.head import fuse
from demur.probes.head_storage import head_from_parts, head_to_parts
from demur.probes.signal_table import SignalTable


@pytest.mark.parametrize("name", ["venn_abers", "cross_venn_abers"])
def test_the_confidence_holds_p0_and_p1(name: str) -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=400)
    correct = draw.random(400) < sigmoid(1.5 * x)
    table = SignalTable(("own",), x[:, None])
    head = fit_head(table, correct, None, arm="answer", stage=Stage.AFTER, replicas=10, calibrator=name)
    assert head.calibrator.name == name
    for at in (-2.0, 0.1, 5.0):
        ends = head.calibrator.interval(fuse(head.fusion, np.array([[at]])).log_odds[:, 0])
        assert ends is not None
        for each in (head, head_from_parts(*head_to_parts(head))):
            found = each.predict([Signal.of("own", at)])
            assert isinstance(found, Confidence) and found.interval is not None
            assert found.interval.low <= ends[0][0] <= found.value <= ends[1][0] <= found.interval.high
    # Beyond every row nothing but p0 tells that it might be wrong all the same.
    assert found.interval.low < 0.99

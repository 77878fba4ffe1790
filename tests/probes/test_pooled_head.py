"""A head that knows tools apart."""

from __future__ import annotations

import numpy as np
import pytest

from demur.core.confidence import Confidence
from demur.core.decision import Stage
from demur.core.errors import BadInput
from demur.core.signal import Signal
from demur.probes.calibration.base import logit, sigmoid
from demur.probes.fit_head import fit_head
from demur.probes.head import Head
from demur.probes.head_storage import head_from_parts, head_to_parts
from demur.probes.signal_table import SignalTable

OFFSETS = {"refund": -1.5, "search": 1.0, "mail": 0.5, "rare": -1.0}
SIZES = {"refund": 200, "search": 200, "mail": 200, "rare": 20}


def rows(seed: int = 0) -> tuple[SignalTable, np.ndarray, list[str]]:
    draw = np.random.default_rng(seed)
    tools = [name for name, size in SIZES.items() for _ in range(size)]
    x = draw.normal(size=len(tools))
    correct = draw.random(len(tools)) < sigmoid(1.5 * x + np.array([OFFSETS[tool] for tool in tools]))
    return SignalTable(("own",), x[:, None]), correct, tools


def fitted(**options: object) -> Head:
    table, correct, tools = rows()
    return fit_head(table, correct, None, arm="answer", stage=Stage.AFTER, replicas=10, **{"tools": tools, **options})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def head() -> Head:
    return fitted()


def said(head: Head, tool: str | None) -> Confidence:
    found = head.predict([Signal.of("own", 0.3)], tool=tool)
    assert isinstance(found, Confidence)
    return found


def test_each_tool_has_its_own_confidence(head: Head) -> None:
    value = {tool: said(head, tool).value for tool in (*OFFSETS, None, "never met")}
    assert value["refund"] < value["rare"] < value["mail"] < value["search"]
    assert value["never met"] == pytest.approx(value[None]) == pytest.approx(said(fitted(tools=None), None).value)
    # The rare tool leans on the rest: less far from it than the same offset of a tool with many rows.
    assert head.pooling is not None and head.pooling.labels["rare"] == 20
    assert head.pooling.errors["rare"] > head.pooling.errors["refund"]


def test_an_interval_is_wider_for_what_was_seldom_seen(head: Head) -> None:
    def width(tool: str) -> float:
        interval = said(head, tool).interval
        return float(logit(interval.high) - logit(interval.low))

    assert width("search") < width("rare") < width("never met")


def test_contributions_add_up_with_the_tool_among_them(head: Head) -> None:
    for tool in ("refund", None):
        found = said(head, tool)
        offset = 0.0 if tool is None else head.pooling.offsets[tool]  # type: ignore[union-attr]
        own = [part.log_odds for part in found.contributions if part.signal != "tool.refund"]
        assert [part.log_odds for part in found.contributions if part.signal == "tool.refund"] == [offset] * bool(tool)
        plain = said(head, None)
        assert sum(own) == pytest.approx(sum(part.log_odds for part in plain.contributions))
        assert logit(found.value) == pytest.approx(float(logit(plain.value)) + offset)


def test_what_is_said_out_of_fold_is_better_for_knowing_the_tool(head: Head) -> None:
    _, correct, _ = rows()
    brier = [float(np.mean((each.out_of_fold.probability - correct) ** 2)) for each in (head, fitted(tools=None))]
    assert brier[0] < brier[1] - 0.01


def test_tables_and_single_calls_agree_and_it_survives_storage(head: Head) -> None:
    table = SignalTable(("own",), np.full((3, 1), 0.3))
    stored = head_from_parts(*head_to_parts(head))
    for each in (head, stored):
        found = each.predict_table(table, ["refund", None, "rare"]).probability
        assert found == pytest.approx([said(head, tool).value for tool in ("refund", None, "rare")])
    assert (head.predict_table(table).probability == said(head, None).value).all()


def test_another_number_of_tools_than_rows_is_refused() -> None:
    with pytest.raises(BadInput, match="tools"):
        fitted(tools=["a", "b"])

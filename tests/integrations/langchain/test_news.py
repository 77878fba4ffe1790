"""What the model is told of reviews that have ended: "carried out" only where it was, for every way a run can stand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage

from demur import Call, Settings
from demur.core.clock import ManualClock
from demur.core.review_item import ReviewState
from demur.core.run import RunState
from demur.integrations.langchain.messages import STAMP, stamp
from demur.integrations.langchain.news import news_of, with_news
from demur.router.site import Tool
from demur.testing import FrozenConfidence, FrozenRouter, Reviewer

SETTINGS = Settings(
    mode="enforce",
    tools={
        "refund": {"side_effects": "irreversible"},
        "wire": {"side_effects": "irreversible"},
        "lookup": {"side_effects": "none"},
    },
    review={"expires_after": 60.0},
)


class Till:
    """A router with tools that count, and one call of `refund` that waits."""

    def __init__(self, **fields: Any) -> None:
        self.clock = ManualClock(datetime(2026, 12, 1, tzinfo=UTC))
        frozen = FrozenConfidence(0.999, {"refund": 0.5})
        self.router = FrozenRouter(confidence=frozen, settings=SETTINGS, clock=self.clock)
        self.reviewer = Reviewer(self.router)
        self.uses: list[tuple[str, dict[str, Any]]] = []
        self.during: Any = None
        self.tools = {name: self._tool(name) for name in ("refund", "wire", "lookup")}
        for tool in self.tools.values():
            self.router.register_tool(tool)
        call = Call(kind="tool", tool_name="refund", arguments={"order": "A"}, **fields)
        self.waiting = self.router.run(call, tool=self.tools["refund"])
        assert self.waiting.state is RunState.WAITING

    def _tool(self, name: str) -> Tool:
        def run(**arguments: Any) -> str:
            self.uses.append((name, arguments))
            if self.during is not None:
                self.during()
            return "paid"

        return Tool(name, run)

    def resume(self) -> Any:
        return self.router.resume(self.waiting.run_id)

    def told(self) -> str:
        said = news_of(self.router, self.waiting.run_id)
        assert said is not None
        assert said.startswith(f'- Review {self.waiting.review_id} of refund({{"order":"A"}})')
        return said

    @property
    def state(self) -> RunState:
        run = self.router.log.get(self.waiting.run_id)
        assert run is not None
        return run.state


def raising(error: BaseException) -> Any:
    def act() -> None:
        raise error

    return act


def test_nothing_is_news_while_nobody_has_decided() -> None:
    till = Till()
    assert news_of(till.router, till.waiting.run_id) is None
    assert till.router.queue.claim("ada") is not None
    assert news_of(till.router, till.waiting.run_id) is None
    assert news_of(till.router, "run_x") is None


def test_let_through_and_still_to_be_carried_out() -> None:
    till = Till()
    till.reviewer.approve()
    assert till.state is RunState.WAITING
    assert till.told().endswith("let through. Call it once more with the same arguments; it is carried out then, once.")


def test_changed_and_still_to_be_carried_out() -> None:
    till = Till()
    till.reviewer.edit(arguments={"order": "B"})
    assert 'let through, changed into refund({"order":"B"})' in till.told()
    assert till.told().endswith("the arguments that it had; it is carried out as changed then, once.")
    till.resume()
    assert till.told().endswith('changed into refund({"order":"B"}) and carried out.')
    assert till.uses == [("refund", {"order": "B"})]


def test_carried_out() -> None:
    till = Till()
    till.reviewer.approve()
    till.resume()
    assert (till.state, till.told().endswith("let through and carried out.")) == (RunState.DONE, True)


def test_at_work_is_not_carried_out_yet() -> None:
    till = Till()
    till.reviewer.approve()
    heard: list[Any] = []
    till.during = lambda: heard.append((till.state, till.told()))
    till.resume()
    ((state, said),) = heard
    assert state is RunState.OPEN
    assert "is being carried out" in said and "Do not call it again" in said


def test_a_tool_that_failed_was_not_carried_out() -> None:
    till = Till()
    till.reviewer.approve()
    till.during = raising(OSError("bank is down"))
    with pytest.raises(OSError, match="bank"):
        till.resume()
    assert till.state is RunState.FAILED
    assert "let through, but it failed: " in till.told() and "bank is down" in till.told()
    assert "carried out" not in till.told()


def test_what_nobody_knows_is_not_called_done() -> None:
    till = Till()
    till.reviewer.approve()
    till.during = raising(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        till.resume()
    assert till.state is RunState.UNKNOWN
    assert "It is not known whether it happened" in till.told() and "carried out" not in till.told()


@pytest.mark.parametrize(("happened", "says"), [(True, "and carried out."), (False, "but it failed: ")])
def test_what_a_person_found_out_about_it_is_told(happened: bool, says: str) -> None:
    till = Till()
    till.reviewer.approve()
    till.during = raising(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        till.resume()
    (item,) = till.reviewer.waiting()
    _ = till.reviewer.approve(item.id) if happened else till.reviewer.reject(item.id)
    assert till.state is (RunState.DONE if happened else RunState.FAILED)
    assert says in till.told()


def test_too_late_after_it_was_let_through() -> None:
    till = Till(deadline=datetime(2026, 12, 1, tzinfo=UTC) + timedelta(seconds=30))
    till.reviewer.approve()
    till.clock.advance(31.0)
    till.resume()
    assert till.state is RunState.DONE
    assert "let through, but not carried out: " in till.told() and "deadline" in till.told()


def test_nobody_decided_in_time() -> None:
    till = Till()
    till.clock.advance(61.0)
    till.router.queue.expire_due()
    assert till.told().endswith("nobody decided in time; it is not carried out.")


@pytest.mark.parametrize(
    ("verb", "says"),
    [
        (lambda reviewer: reviewer.reject(note="no refunds"), "rejected (no refunds); it is not carried out."),
        (lambda reviewer: reviewer.reject(), "rejected; it is not carried out."),
        (
            lambda reviewer: reviewer.respond("I paid by hand"),
            "answered by a person, and not carried out: I paid by hand",
        ),
    ],
)
def test_decided_against(verb: Any, says: str) -> None:
    till = Till()
    verb(till.reviewer)
    assert till.told().endswith(says)
    assert till.uses == []


def test_an_edit_into_another_tool_waits_anew_and_then_stands_as_that_one_stands() -> None:
    till = Till()
    till.reviewer.edit(tool_name="wire", arguments={"n": 7})
    assert till.told().endswith(
        'let through, changed into wire({"n":7}). Call it once more with the arguments that it had; what it was '
        "changed into is gated then."
    )
    again = till.resume()
    assert again.state is RunState.WAITING
    changed = 'which a person changed into wire({"n":7})'
    assert f"{changed}: that waits anew, as review {again.review_id}. Nothing is carried out yet" in till.told()
    till.reviewer.approve(again.review_id)
    assert f"{changed}: let through. Call it once more" in till.told()
    heard: list[str] = []
    till.during = lambda: heard.append(till.told())
    till.resume()
    assert f"{changed}: let through. It is being carried out" in heard[0]
    assert till.told().endswith(f"{changed}: let through and carried out.")
    assert till.uses == [("wire", {"n": 7})]


@pytest.mark.parametrize("how", ["reject", "respond", "expire"])
def test_the_second_look_can_say_no(how: str) -> None:
    till = Till()
    till.reviewer.edit(tool_name="wire", arguments={"n": 7})
    till.resume()
    if how == "expire":
        till.clock.advance(61.0)
        till.router.queue.expire_due()
    else:
        _ = till.reviewer.reject(note="never") if how == "reject" else till.reviewer.respond("by hand")
    says = {"reject": "rejected (never)", "respond": "answered by a person", "expire": "nobody decided in time"}[how]
    assert f'changed into wire({{"n":7}}): {says}' in till.told()
    assert "and carried out" not in till.told()


def test_an_edit_into_a_harmless_tool_runs_without_a_second_look() -> None:
    till = Till()
    till.reviewer.edit(tool_name="lookup", arguments={"id": 7})
    till.resume()
    assert till.told().endswith('which a person changed into lookup({"id":7}): let through and carried out.')


def test_it_is_said_beside_the_next_turn() -> None:
    class Request:
        """As much of a model request as is read and written."""

        def __init__(self, messages: list[Any]) -> None:
            self.messages, self.system_message = messages, None

        def override(self, **changes: Any) -> Any:
            return changes["system_message"]

    till = Till()
    message = ToolMessage("It waits.", tool_call_id="a", response_metadata={STAMP: stamp(till.waiting)})
    request: Any = Request([HumanMessage("refund A"), message])
    assert with_news(till.router, request) is request
    till.reviewer.approve()
    till.during = raising(OSError("bank is down"))
    with pytest.raises(OSError, match="bank"):
        till.resume()
    assert "but it failed" in str(with_news(till.router, request).text)  # type: ignore[attr-defined]
    items = till.router.queue.of_run(till.waiting.run_id)
    assert [item.state for item in items] == [ReviewState.RESOLVED]

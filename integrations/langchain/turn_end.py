"""The end of a turn that Demur withheld: wait for a human, or end the agent's loop, and leave nothing dangling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, RemoveMessage

from ...core.review_item import Verdict
from ...core.run import Result, RunState
from ...router.steps import Plan, blocking
from .asking import Asking
from .messages import STAMP, last_turn, plain_answer, stamp, tool_answer, unanswered
from .options import AgentOptions
from .wording import Wording


@dataclass(frozen=True)
class TurnEnd:
    """What happens after the model's turn."""

    options: AgentOptions
    wording: Wording

    def plan(self, state: Mapping[str, Any], *, pauses: bool) -> Plan[dict[str, Any] | None]:
        """The state's update, or None where the turn goes on."""
        turn = state.get("demur_turn") or {}
        message, answers = last_turn(state.get("messages") or [])
        if not turn or message is None or (message.response_metadata.get(STAMP) or {}).get("run_id") != turn["run_id"]:
            return None  # nothing was withheld, or another middleware put another message in its place
        update: dict[str, Any] = {"jump_to": "end"}
        if turn.get("state") == RunState.WAITING.value and pauses:
            update |= yield from self._decided(state, turn, message)
        dangling = [
            tool_answer(call, f"The call of {call['name']} was not carried out: the turn ended.", failed=True)
            for call in unanswered(message, answers)
        ]
        return {**update, "messages": [*update.get("messages", []), *dangling]}

    def _decided(self, state: Mapping[str, Any], turn: Mapping[str, Any], message: AIMessage) -> Plan[dict[str, Any]]:
        """Pause until a human has decided about the answer, then say it under a new id, so that it is streamed."""
        router = self.options.router
        asking = Asking(router, self.options.format, self.options.reviewer)
        item = yield from asking.plan(turn["review_id"])
        run = yield blocking(router.log.get, turn["run_id"])
        result: Result[Any] = run.result
        if result.delivered:
            text = str(result.value)
        else:
            text = yield blocking(self.wording.to_user, result)
        said = plain_answer(text, result, name=message.name)
        update: dict[str, Any] = {
            "messages": [RemoveMessage(id=message.id or ""), said],
            "demur_turn": {**stamp(result), "state": result.state.value},
            "demur_held": None,
        }
        approved = item.resolution is not None and item.resolution.verdict is Verdict.APPROVE
        held = state.get("demur_held")
        if approved and held is not None:
            update["structured_response"] = held
        return update

"""What a human is shown when the graph pauses, and what may come back: LangChain's shape, or the Agent Inbox's.

Positions: one interrupt asks about one call, so there is one action request and one decision.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, WithJsonSchema

from ...core.review_item import Resolution, ReviewItem, Verdict

VERDICTS = ("approve", "edit", "reject", "respond")
_INBOX = {"accept": "approve", "edit": "edit", "ignore": "reject", "response": "respond"}


@dataclass(frozen=True)
class Question:
    """One thing a human is asked.

    Attributes:
        name, args: the tool call; for an answer "answer" and {"text": draft}.
        allowed: decisions that make sense here.
        format: "hitl" or "agent_inbox".
    """

    name: str
    args: Mapping[str, Any]
    description: str
    allowed: tuple[str, ...]
    format: str

    def value(self, item: ReviewItem) -> Any:
        """What the interrupt shows."""
        if self.format == "agent_inbox":
            config = {
                "allow_accept": "approve" in self.allowed,
                "allow_edit": "edit" in self.allowed,
                "allow_ignore": "reject" in self.allowed,
                "allow_respond": "respond" in self.allowed,
            }
            return [
                {
                    "action_request": {"action": self.name, "args": dict(self.args)},
                    "config": config,
                    "description": self.description,
                }
            ]
        confidence = item.confidence
        return {
            "action_requests": [{"name": self.name, "args": dict(self.args), "description": self.description}],
            "review_configs": [{"action_name": self.name, "allowed_decisions": list(self.allowed)}],
            "demur": {
                "review_id": item.id,
                "run_id": item.run_id,
                "confidence": None if confidence is None or confidence.is_prior else float(confidence.value),
            },
        }

    def schema(self, refusal: Callable[[Resolution], str | None], decided: bool) -> Any:
        """What a resume value must be; anything else is refused before it is stored, so it can be given again.

        Args:
            refusal: why this decision cannot be taken right now, or None.
            decided: the review has ended elsewhere: whatever comes, that decision counts.
        """

        def check(given: Any) -> Any:
            if decided:
                return given
            why = refusal(self.resolution(given, "checked"))
            if why is not None:
                raise ValueError(why)
            return given

        return Annotated[Any, AfterValidator(check), WithJsonSchema(self._json_schema())]

    def _json_schema(self) -> dict[str, Any]:
        """What clients draw their form from."""
        if self.format == "agent_inbox":
            kinds = [kind for kind, verdict in _INBOX.items() if verdict in self.allowed]
            one = {"type": "object", "properties": {"type": {"enum": kinds}, "args": {}}, "required": ["type"]}
            return {"type": "array", "items": one, "minItems": 1, "maxItems": 1}
        action = {"name": {"type": "string"}, "args": {"type": "object"}}
        parts = {
            "type": {"enum": list(self.allowed)},
            "message": {"type": "string"},
            "edited_action": {"type": "object", "properties": action, "required": ["name", "args"]},
        }
        one = {"type": "object", "properties": parts, "required": ["type"], "additionalProperties": False}
        decisions = {"type": "array", "items": one, "minItems": 1, "maxItems": 1}
        return {"type": "object", "properties": {"decisions": decisions}, "required": ["decisions"]}

    def resolution(self, given: Any, reviewer: str) -> Resolution:
        """The decision in a resume value.

        Raises:
            ValueError: it is not one decision that is allowed here.
        """
        decision = self._inbox(given) if self.format == "agent_inbox" else self._hitl(given)
        if decision.type not in self.allowed:
            raise ValueError(f"decision {decision.type!r} is not allowed here; use one of {', '.join(self.allowed)}")
        is_answer = self.name == ANSWER
        fields: dict[str, Any] = {"verdict": Verdict(decision.type), "reviewer": reviewer}
        if decision.type == "edit":
            fields |= self._edited(decision, is_answer)
        elif decision.type == "respond":
            fields["answer"] = decision.message
        else:
            fields["note"] = decision.message or ""
        return Resolution(**fields)

    def _edited(self, decision: _Decision, is_answer: bool) -> dict[str, Any]:
        action = decision.edited_action
        if action is None:
            raise ValueError("an edit needs edited_action: {'name': ..., 'args': {...}}")
        if is_answer:
            if not isinstance(action.args.get("text"), str):
                raise ValueError("an edit of an answer needs edited_action.args.text")
            return {"answer": action.args["text"]}
        return {"tool_name": action.name if action.name != self.name else None, "arguments": action.args}

    def _hitl(self, given: Any) -> _Decision:
        decisions = given.get("decisions") if isinstance(given, Mapping) else None
        if not isinstance(decisions, list):
            raise ValueError("resume with {'decisions': [{'type': 'approve'}]}")
        if len(decisions) != 1:
            raise ValueError(f"one call is asked about and {len(decisions)} decisions came; give exactly one")
        return _read(decisions[0])

    def _inbox(self, given: Any) -> _Decision:
        if isinstance(given, list):
            if len(given) != 1:
                raise ValueError(f"one call is asked about and {len(given)} responses came; give exactly one")
            given = given[0]
        if not isinstance(given, Mapping) or given.get("type") not in _INBOX:
            raise ValueError(f"resume with [{{'type': {' | '.join(_INBOX)}, 'args': ...}}]")
        kind, args = _INBOX[given["type"]], given.get("args")
        if kind == "edit":
            if not isinstance(args, Mapping) or not isinstance(args.get("args"), Mapping):
                raise ValueError("an edit needs args: {'action': ..., 'args': {...}}")
            typed = {key: self._typed(key, value) for key, value in args["args"].items()}
            return _read({"type": kind, "edited_action": {"name": args.get("action") or self.name, "args": typed}})
        return _read({"type": kind, "message": args if isinstance(args, str) else None})

    def _typed(self, key: str, value: Any) -> Any:
        """The inbox gives edited values back as text; where the original was not text, its type is restored."""
        original = self.args.get(key)
        if not isinstance(value, str) or original is None or isinstance(original, str):
            return value
        try:
            read = json.loads(value)
        except ValueError as error:
            raise ValueError(
                f"edited {key}={value!r} is no JSON, and the original is a {type(original).__name__}"
            ) from error
        return read


ANSWER = "answer"
"""The name under which an answer, not a tool call, is asked about."""


class _Action(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    args: dict[str, Any]


class _Decision(BaseModel):
    model_config = ConfigDict(extra="forbid")
    type: str
    message: str | None = None
    edited_action: _Action | None = None


def _read(given: Any) -> _Decision:
    try:
        decision = _Decision.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"a decision has the wrong shape at {where or 'its top'}: {first['msg']}") from None
    if decision.type not in VERDICTS:
        raise ValueError(f"decision type {decision.type!r}: use one of {', '.join(VERDICTS)}")
    if decision.type == "respond" and decision.message is None:
        raise ValueError("respond needs a message")
    return decision


def question_of(item: ReviewItem, format: str) -> Question:
    """The question of a queue item: a tool call, or a drafted answer."""
    if item.call.tool_name is not None:
        return Question(item.call.tool_name, item.call.arguments, item.reason, VERDICTS, format)
    if item.proposed is None:
        return Question(ANSWER, {"text": ""}, item.reason, ("reject", "respond"), format)
    return Question(ANSWER, {"text": item.proposed}, item.reason, VERDICTS, format)

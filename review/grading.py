"""What a reviewer's decision says about the response: only what was really said.

- approve: the response was right.
- edit: it was wrong, and this is the right one (an edit that changes nothing is an approval).
- reject: it was wrong. A rejection may have other grounds (the question itself, say), but leaving rejections out
  would leave the worst responses out of the labels and make the rest look better than they are.
- respond: nothing. The reviewer answered by other means and did not grade what was proposed
  (word for word the same text is an approval).

An `effect_unknown` item asks what happened, not whether the call was right: it never grades.
"""

from __future__ import annotations

from ..core.call import CallKind
from ..core.errors import BadInput
from ..core.outcome import Outcome, OutcomeSource
from ..core.record import canonical_json
from ..core.review_item import Resolution, ReviewItem, ReviewKind, Verdict


def check_fits(item: ReviewItem, resolution: Resolution) -> None:
    """Refuse a resolution that makes no sense for its item.

    Raises:
        BadInput: an edit without the part that this kind of call needs, an approval of nothing, or anything but
            approve ("it happened") and reject ("it did not") for an effect of which nobody knows.
    """
    verdict, is_tool = resolution.verdict, item.call.kind is CallKind.TOOL
    if item.kind is ReviewKind.EFFECT_UNKNOWN:
        if verdict not in (Verdict.APPROVE, Verdict.REJECT):
            raise BadInput(
                f"{verdict} does not answer whether the effect happened; approve means it did, reject means it did not"
            )
        return
    if verdict is Verdict.EDIT and is_tool and (resolution.arguments is None or resolution.answer is not None):
        raise BadInput("an edit of a tool call gives arguments, and no answer (respond gives one)")
    if verdict is Verdict.EDIT and not is_tool and (resolution.answer is None or resolution.arguments is not None):
        raise BadInput("an edit of an answer gives an answer, and no arguments")
    if verdict is not Verdict.EDIT and (resolution.arguments is not None or resolution.tool_name is not None):
        raise BadInput(f"{verdict} takes neither arguments nor a tool name; use edit")
    if not is_tool and resolution.tool_name is not None:
        raise BadInput(f"this is no tool call; tool_name={resolution.tool_name!r} has no meaning here")
    if verdict is Verdict.APPROVE and not is_tool and item.proposed is None:
        raise BadInput("there is no draft to approve; respond with an answer, or reject")


def outcome_of(item: ReviewItem, resolution: Resolution, label_propensity: float | None) -> Outcome | None:
    """The grade that a resolution implies, or None where it implies none (see the module's text).

    Args:
        label_propensity: what the decision stored; None where there is no decision to ask.
    """
    if item.kind is ReviewKind.EFFECT_UNKNOWN or item.response_id is None:
        return None
    is_tool = item.call.kind is CallKind.TOOL
    if not is_tool and item.proposed is None:
        return None
    correct, corrected = _tool_grade(item, resolution) if is_tool else _answer_grade(item, resolution)
    if correct is None:
        return None
    return Outcome(
        response_id=item.response_id,
        correct=correct,
        corrected_answer=corrected,
        source=OutcomeSource.HUMAN,
        source_name=resolution.reviewer,
        label_propensity=label_propensity,
        graded_at=resolution.resolved_at,
    )


def _answer_grade(item: ReviewItem, resolution: Resolution) -> tuple[bool | None, str | None]:
    unchanged = resolution.answer is not None and resolution.answer.strip() == (item.proposed or "").strip()
    if resolution.verdict is Verdict.APPROVE or unchanged:
        return True, None
    if resolution.verdict is Verdict.EDIT:
        return False, resolution.answer
    return (False, None) if resolution.verdict is Verdict.REJECT else (None, None)


def _tool_grade(item: ReviewItem, resolution: Resolution) -> tuple[bool | None, str | None]:
    if resolution.verdict is Verdict.EDIT:
        proposed = {"name": item.call.tool_name, "arguments": item.call.arguments}
        edited = {"name": resolution.tool_name or item.call.tool_name, "arguments": resolution.arguments}
        wanted = canonical_json(edited)
        return (True, None) if wanted == canonical_json(proposed) else (False, wanted)
    if resolution.verdict is Verdict.RESPOND:
        return None, None
    return resolution.verdict is Verdict.APPROVE, None

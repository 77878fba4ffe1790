"""Review items as they are shown in a terminal: plain text in panels and tables."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ...core.call import Call, CallKind
from ...core.confidence import Confidence
from ...core.review_item import ReviewItem, ReviewKind
from ...core.text import printable
from ...core.turn import TurnKind
from ...review.context import Context
from ...review.conversations import Entry

_CONTRIBUTIONS = 5
EARLIER_LIMIT = 300
_TURNS = {
    TurnKind.ANSWER: "an answer",
    TurnKind.REFUSAL: "a refusal: to approve it says that refusing is right",
    TurnKind.CLARIFICATION: "a question back: to approve it says that asking is right",
    TurnKind.TOOL_CALL: "a tool call",
}


def panel_of(item: ReviewItem, limit: int = 4000, context: Context | None = None, place: str = "") -> Panel:
    """Everything a reviewer needs to decide; of each text at most `limit` characters, saying how many are left off.

    Args:
        context: the kind of turn and the turns before; of each of those at most `EARLIER_LIMIT` characters.
        place: which item of its conversation this is, such as "2 of 3".
    """

    def headed(head: str, body: str) -> Text:
        return Text.assemble((f"{printable(head, 100)}\n", "bold"), printable(body, limit), "\n")

    parts: list[RenderableType] = []
    if item.call.conversation_id is not None:
        parts.append(headed("Conversation", item.call.conversation_id))
    if context is not None and context.earlier:
        parts.append(headed("Earlier in it", "\n".join(_earlier(context))))
    parts.append(headed("Why it is here", item.reason))
    tool = item.call.kind is CallKind.TOOL
    parts += [headed(message.role, message.content) for message in item.call.messages]
    if tool:
        parts.append(headed("Tool call", f"{item.call.tool_name}\n{_pretty(item.call)}"))
        parts.append(headed("Side effects", item.call.side_effects.value))
    if item.kind is ReviewKind.EFFECT_UNKNOWN:
        parts.append(headed("To decide", "Did it happen? approve: it did; reject: it did not."))
    elif not tool:
        parts.append(headed("Proposed answer", "(none)" if item.proposed is None else item.proposed))
    if context is not None and context.turn is not None:
        parts.append(headed("Kind of turn", _TURNS[context.turn]))
    parts.append(headed("Confidence", confidence_in_words(item.confidence)))
    if item.due_at is not None:
        parts.append(headed("Due", f"{item.due_at:%Y-%m-%d %H:%M:%S} UTC, then: {item.on_expiry.value}"))
    if item.resolution is not None:
        parts.append(headed("Decided", _resolution(item)))
    where = f"{item.call.task} / {item.call.tenant} · {item.state.value}"
    title = f"{printable(item.id, 100)} · {place}" if place else printable(item.id, 100)
    return Panel(Group(*parts), title=Text(title), subtitle=Text(printable(where, 200)), title_align="left")


def table_of(entries: Sequence[Entry]) -> Table:
    """One line for each entry, with its oldest item."""
    table = Table("id", "calls", "state", "kind", "task", "confidence", "question", "held by")
    for entry in entries:
        item = entry.items[0]
        sure = "-" if item.confidence is None else f"{item.confidence.value:.2f}"
        states = ", ".join(dict.fromkeys(each.state.value for each in entry.items))
        cells = [item.id, str(len(entry.items)), states, item.kind.value, item.call.task, sure]
        cells += [item.call.question, entry.lease_owner or ""]
        # Ids are never cut: they are what the other commands take.
        table.add_row(
            *(Text(_line(cell), overflow="fold" if not number else "ellipsis") for number, cell in enumerate(cells))
        )
    table.columns[0].no_wrap = False
    return table


def confidence_in_words(confidence: Confidence | None) -> str:
    """Such as "about 7 in 10 like this were right (between 55 % and 81 %, at level 90 %)"."""
    if confidence is None:
        return "none: there was too little to go on"
    if confidence.is_prior:
        return "nothing is known yet about calls like this (no labels)"
    interval = confidence.interval
    lines = [
        f"{_odds(confidence.value)} like this were right (between {interval.low:.0%} and {interval.high:.0%}, "
        f"at level {interval.level:.0%}; {confidence.labels} labels)"
    ]
    for each in confidence.contributions[:_CONTRIBUTIONS]:
        direction = "surer" if each.log_odds >= 0 else "less sure"
        lines.append(f"  {each.signal}: {each.log_odds:+.2f} ({direction})")
    if confidence.missing:
        lines.append(f"  missing: {', '.join(confidence.missing)}")
    return "\n".join(lines)


def _earlier(context: Context) -> list[str]:
    """Two lines a turn, each on one line whatever it holds."""
    lines = ["(more before)"] if context.left_off else []
    for turn in context.earlier:
        answer = f"({turn.ending}: nothing was delivered)" if turn.answer is None else turn.answer
        lines += [f"> {_line(turn.question, EARLIER_LIMIT)}", f"  {_line(answer, EARLIER_LIMIT)}"]
    return lines


def _odds(probability: float) -> str:
    if 0.1 <= probability <= 0.9:
        return f"about {round(probability * 10)} in 10"
    if 0.005 <= probability <= 0.995:
        return f"about {round(probability * 100)} in 100"
    return "fewer than 1 in 100" if probability < 0.5 else "more than 99 in 100"


def _line(text: str, limit: int = 200) -> str:
    return " ".join(printable(text, limit).split())


def _pretty(call: Call) -> str:
    return json.dumps(call.arguments, indent=2, ensure_ascii=False)


def _resolution(item: ReviewItem) -> str:
    resolution = item.resolution
    assert resolution is not None
    lines = [f"{resolution.verdict.value} by {resolution.reviewer}"]
    if resolution.answer is not None:
        lines.append(resolution.answer)
    if resolution.arguments is not None:
        edited = json.dumps(resolution.arguments, indent=2, ensure_ascii=False)
        lines.append(f"{resolution.tool_name or item.call.tool_name}\n{edited}")
    if resolution.note:
        lines.append(f"note: {resolution.note}")
    return "\n".join(lines)

"""Tool calls in what a model wrote, found by position and read without mercy.

Three ways of writing them, the first that occurs counts:

* `<tool_call>{...}</tool_call>`, anywhere in the text and several times (Qwen, Hermes);
* the whole text is one or more JSON objects, or a list of them (Llama, Mistral);
* fenced blocks (three backticks) with nothing but further calls behind them: prose behind a block makes it an example.

An object is `{"name", "arguments" | "parameters"}`, perhaps with an `id` and a `type`, which mean nothing here.
Reasoning, from a `<think>` at the start to the first `</think>`, is never a call. A string inside a call that looks
like the end of the call and the start of another is part of the string: JSON is read first, tags are looked for
behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from ...evaluation.graders.strict_json import NotJson, read_json, read_prefix
from .call_json import KEYS, SPACE, Broken, BrokenCall, NoCall, WrittenCall, broken_call, read_call, skip

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_FENCE, _THINK = "```", "<think>"
_FIRST_KEY = re.compile(r'[\[{\s]*"([^"]*)"')
_ATTEMPT = re.compile(r'"(?:arguments|parameters)"\s*:')
_CALL_FENCES = frozenset({"", "json", "tool_call"})


@dataclass(frozen=True)
class ToolText:
    """A text taken apart.

    Attributes:
        content: the text without its calls.
        calls: in order.
    """

    content: str
    calls: tuple[WrittenCall | BrokenCall, ...] = ()

    @property
    def span(self) -> tuple[int, int] | None:
        """Character offsets from the first call's name or arguments to the last call's; None without a sound call."""
        sound = [call for call in self.calls if isinstance(call, WrittenCall)]
        return (sound[0].start, sound[-1].end) if sound else None


@dataclass(frozen=True)
class _Region:
    start: int
    end: int
    calls: tuple[WrittenCall | BrokenCall, ...]


def read_tool_text(text: str, *, thinking: bool = False) -> ToolText:
    """Take the text apart.

    Args:
        thinking: the prompt opened the reasoning already.
    """
    begin = _after_thinking(text, thinking)
    if begin is None:
        return ToolText(text)
    regions = _tagged(text, begin) or _bare(text, begin) or _fenced(text, begin)
    if not regions:
        return ToolText(text)
    kept = [text[: regions[0].start]]
    kept += [text[a.end : b.start] for a, b in pairwise(regions)]
    kept.append(text[regions[-1].end :])
    content = "\n".join(part.strip() for part in kept if part.strip())
    return ToolText(content, tuple(call for region in regions for call in region.calls))


def certain_content(text: str, *, thinking: bool = False) -> int:
    """How many characters of an unfinished text belong to its content whatever comes next.

    Trailing white space is not certain. The finished text's content begins with these characters.
    """
    begin = _after_thinking(text, thinking)
    if begin is None:
        return len(text.rstrip())
    if _may_be_bare(text[begin:]):
        return len(text[:begin].rstrip())
    holds = [len(text), text.find(OPEN, begin), _first_call_fence(text, begin)]
    for mark in (OPEN, _FENCE):
        holds += [len(text) - size for size in range(1, len(mark)) if text.endswith(mark[:size])]
    return len(text[: min(at for at in holds if at >= 0)].rstrip())


def _after_thinking(text: str, thinking: bool) -> int | None:
    """Where reasoning ends; None where it does not."""
    if not (thinking or text.lstrip().startswith(_THINK)):
        return 0
    end = text.find("</think>")
    return None if end < 0 else end + len("</think>")


def _tagged(text: str, begin: int) -> list[_Region]:
    regions: list[_Region] = []
    at = text.find(OPEN, begin)
    while at >= 0:
        body = skip(text, at + len(OPEN))
        try:
            call, end = read_call(text, body)
            end = skip(text, end)
            if text.startswith(CLOSE, end):
                end += len(CLOSE)
            elif end < len(text) and not text.startswith(OPEN, end):
                raise Broken("there is text between the JSON object and the end of the call")
            found: WrittenCall | BrokenCall | None = call
        except (Broken, NoCall) as error:
            stop = _close_outside_strings(text, body)
            end = len(text) if stop is None else stop + len(CLOSE)
            found = broken_call(text[body:stop], error)
            if stop is None and not text.startswith("{", body):
                # Prose that mentions the tag.
                at = text.find(OPEN, body)
                continue
        regions.append(_Region(at, end, (found,)))
        at = text.find(OPEN, end)
    return regions


def _close_outside_strings(text: str, at: int) -> int | None:
    """The closing tag that does not stand inside a JSON string; in doubt there is none, and nothing else is read."""
    inside = escaped = False
    for index in range(at, len(text)):
        character = text[index]
        if inside and escaped:
            escaped = False
        elif inside and character == "\\":
            escaped = True
        elif character == '"':
            inside = not inside
        elif not inside and text.startswith(CLOSE, index):
            return index
    return None


def _may_be_bare(text: str) -> bool:
    """The text is the beginning of a call without a tag, or may become one."""
    body = text.lstrip()
    if not body.startswith(("{", "[")):
        return not body
    match = _FIRST_KEY.match(body)
    if match is not None:
        return match[1] in KEYS
    rest = body.lstrip("[{" + SPACE)
    return not rest or rest.startswith('"')


def _bare(text: str, begin: int) -> list[_Region]:
    start = skip(text, begin)
    if start == len(text) or not _may_be_bare(text[start:]):
        return []
    end = len(text.rstrip())
    return _block(text, start, end)


def _block(text: str, start: int, end: int) -> list[_Region]:
    """The region of a block that is all JSON; [] where it is JSON of another kind, or plainly no attempt at a call."""
    try:
        return [_Region(start, end, tuple(read_calls(text, start, end)))]
    except NoCall:
        return []
    except Broken as error:
        written = text[start:end]
        return [_Region(start, end, (broken_call(written, error),))] if _ATTEMPT.search(written) else []


def read_calls(text: str, start: int, end: int) -> Iterator[WrittenCall]:
    listed = text[start] == "["
    if listed:
        try:
            read_json(text[start:end])
        except NotJson as error:
            raise Broken(str(error)) from None
    at = skip(text, start + listed)
    while at < end and text[at] != "]":
        call, at = read_call(text, at)
        yield call
        at = skip(text, at, SPACE + ("," if listed else ";"))
    if at + listed < end:
        raise Broken("there is text behind the JSON")


def _first_call_fence(text: str, begin: int) -> int:
    """Where the first fence opens that holds a call, or may turn out to; -1 for none."""
    return next((at for at, body in _fences(text, begin) if body is None or _may_be_bare(text[body:])), -1)


def _fences(text: str, begin: int) -> Iterator[tuple[int, int | None]]:
    """(where it opens, where its body starts) of each fenced block; None where its first line is not ended."""
    at = text.find(_FENCE, begin)
    while at >= 0:
        line = text.find("\n", at)
        if line < 0:
            yield at, None
            return
        close = text.find(_FENCE, line)
        if text[at + len(_FENCE) : line].strip().lower() in _CALL_FENCES:
            yield at, line + 1
        if close < 0:
            return
        at = text.find(_FENCE, close + len(_FENCE))


def _fenced(text: str, begin: int) -> list[_Region]:
    for opens, body in _fences(text, begin):
        if body is None or not text[skip(text, body) :] or not _may_be_bare(text[body:]):
            continue
        return _fences_to_the_end(text, opens)
    return []


def _fences_to_the_end(text: str, at: int) -> list[_Region]:
    """The regions of fenced calls from here on; [] where there is prose between or behind them."""
    regions: list[_Region] = []
    while at < len(text):
        line = text.find("\n", at)
        if line < 0 or not text.startswith(_FENCE, at):
            return []
        if text[at + len(_FENCE) : line].strip().lower() not in _CALL_FENCES:
            return []
        body = skip(text, line)
        close = _close_of_fence(text, body)
        block = _block(text, body, len(text[body:close].rstrip()) + body) if text[body:close].strip() else []
        if not block:
            return []
        end = close if close == len(text) else close + len(_FENCE)
        regions.append(_Region(at, end, block[0].calls))
        at = skip(text, end)
    return regions


def _close_of_fence(text: str, body: int) -> int:
    """Where the fence closes: behind the JSON values, so that backticks inside a string do not count."""
    at = body
    while not text.startswith(_FENCE, at):
        try:
            _, rest = read_prefix(text[at:])
        except NotJson:
            break
        at = skip(text, len(text) - len(rest), SPACE + ";")
    close = text.find(_FENCE, at)
    return len(text) if close < 0 else close

"""Which kind of turn a response is. When in doubt it is an answer, which is judged the hardest."""

from __future__ import annotations

import re

from ..core.response import Response
from ..core.turn import TurnKind
from .text import same_text

_LONGEST = 400
"""Characters; anything longer asserts something."""

_REFUSALS = (
    "i don't know", "i do not know", "i'm not sure", "i am not sure", "i can't help", "i cannot help",
    "i'm unable to", "i am unable to", "i'm not able to", "i am not able to", "i can't answer", "i cannot answer",
    "i can't assist", "i cannot assist", "i won't be able to", "i'm sorry, but i can", "i am sorry, but i can",
    "i'm sorry, i can", "sorry, i can", "sorry, but i can", "as an ai", "i can't provide", "i cannot provide",
    "i have no information", "no answer", "unanswerable", "unknown",
    "ich weiß es nicht", "ich weiß nicht", "das weiß ich nicht", "dabei kann ich nicht", "ich kann nicht",
    "ich kann das nicht", "je ne sais pas", "je ne peux pas", "je suis désolé, mais je ne", "no lo sé", "no sé",
    "no puedo", "lo siento, no puedo", "lo siento, pero no",
)  # fmt: skip
_FOLDED = tuple(each.casefold() for each in _REFUSALS)
_RHETORICAL = ("did you know", "who knew", "isn't it", "aren't you glad", "why not just", "wusstest du", "saviez-vous")
# "It is Paris, isn't it?" asserts.
_TAG = re.compile(
    r", (?:isn't|aren't|doesn't|don't|right|no|ok|okay|nicht wahr|oder|n'est-ce pas|verdad)\b[^,]{0,12}\?$"
)
# What a question opens with; "Paris?" and "The capital is Paris?" do not.
_OPENING = re.compile(
    r"(?:and |und |et |y |or )?(?:which|what|who|whom|whose|when|where|why|how|do|does|did|can|could|would|will|should|"
    r"are|is|was|were|have|has|may|shall|in which|for which|by which|on which|welche|was|wer|wen|wem|wann|wo|warum|wie|"
    r"meinen|möchten|können|soll|ist|sind|haben|quel|qui|que|quand|où|pourquoi|comment|combien|est-ce|pouvez|voulez|"
    r"souhaitez|cuál|qué|quién|cuándo|dónde|cómo|puede|quiere|أي|ما|من|متى|أين|هل|کدام)"
)
_SENTENCE = re.compile(r"[^.!?。！？؟\n]*[.!?。！？؟\n]?")
_ASKS = ("?", "？", "؟")


def turn_kind(response: Response, refusal: str | None = None) -> TurnKind:
    """Answer, refusal, clarification or tool call.

    A refusal is the task's own refusal string, or one short sentence that opens like one and asserts nothing after it.
    A clarification is short and made of questions only, but for a polite opening such as "Sure."

    Args:
        refusal: what this task's models are told to say where they cannot answer.
    """
    if response.tool_calls:
        return TurnKind.TOOL_CALL
    text = response.text.strip()
    if refusal is not None and text and same_text(text, refusal):
        return TurnKind.REFUSAL
    if not text or len(text) > _LONGEST:
        return TurnKind.ANSWER
    sentences = [part.strip() for part in _SENTENCE.findall(text) if part.strip(" .\t")]
    if not sentences:
        return TurnKind.ANSWER
    if _asks_back(sentences):
        return TurnKind.CLARIFICATION
    plain = text.casefold().replace("’", "'")
    if len(sentences) == 1 and plain.startswith(_FOLDED):
        return TurnKind.REFUSAL if _only_refuses(plain) else TurnKind.ANSWER
    return TurnKind.ANSWER


def _asks_back(sentences: list[str]) -> bool:
    asking = [sentence for sentence in sentences if sentence.endswith(_ASKS)]
    if not asking:
        return False
    rest = [sentence.rstrip(".!。！").casefold() for sentence in sentences if sentence not in asking]
    if any(word not in _POLITE for word in rest):
        return False
    plain = [sentence.casefold().replace("’", "'").lstrip("¿ ") for sentence in asking]
    return not any(each.startswith(_RHETORICAL) or _TAG.search(each) or not _OPENING.match(each) for each in plain)


_POLITE = {"sure", "of course", "certainly", "happy to help", "okay", "ok", "gern", "gerne", "bien sûr", "claro"}


_REFUSES_AGAIN = ("i can't", "i cannot", "i am unable", "i'm unable", "i don't", "i do not")


def _only_refuses(plain: str) -> bool:
    """Nothing after the refusal that could be an answer: ", but it is Paris" turns it into one."""
    tail = plain.split(", but ", 1)
    if len(tail) == 2 and not tail[1].startswith(
        ("i can", "i am unable", "i'm unable", "i don't", "i do not", "je ne")
    ):
        return False
    return not any(mark in plain for mark in (":", ";", " however ", " probably ", " likely ", " it is ", " it's "))

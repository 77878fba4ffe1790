"""Which kind of turn a response is. When in doubt it is an answer, which is judged the hardest.

Refusals and questions back are recognised by what they are made of from their first word to their last: a sentence
with a part that is not known to be empty is an answer. So a refusal in other words is missed, and calibrated with the
answers; but nothing that asserts something passes for a turn that does not.
"""

from __future__ import annotations

import re

from ..core.response import Response
from ..core.turn import TurnKind
from .text import same_text
from .turn_words import (
    APOLOGIES,
    ASKS_FOR,
    ASKS_ON,
    ASSERTING,
    BE,
    CHOOSES,
    CHOOSES_UNSPACED,
    CLOSED,
    EMPTY,
    GIVES_NO,
    INDIRECT,
    JOINERS,
    KNOWS_NOT,
    LONGEST_TAIL,
    NAMES,
    NOT_A_THING,
    NOT_LAST,
    OFFERS,
    TELLING,
    TELLING_BUT,
    TELLING_UNSPACED,
    TOPICS,
    WHICH_IN,
)

LONGEST_REFUSAL = 400
LONGEST_CLARIFICATION = 300
"""Characters; whatever is longer says something."""
MOST_SENTENCES = 6
LONGEST_QUESTION = 25
"""Words."""

_SENTENCE = re.compile(r"[^.!?。！？؟\n]*[.!?。！？؟\n]*")
_ASKS = ("?", "？", "؟")
_ENDS = ".!?。！？؟ \t\n"
_STRUCTURE = re.compile(r"[:;()\[\]{}<>=|*#_`\"“”«»„0-9]|[-–—](?:\s|$)|\s[-–—]")
_ASKING_STRUCTURE = re.compile(r"[:;()\[\]{}<>=|*#_`]|[-–—](?:\s|$)|\s[-–—]")


def turn_kind(response: Response, refusal: str | None = None) -> TurnKind:
    """Answer, refusal, clarification or tool call. Takes time linear in the text.

    A refusal is the task's own refusal string, or one to six short sentences that refuse and say nothing besides. A
    clarification is made of questions to the other side only. A text that was cut off may have gone on: an answer.

    Args:
        refusal: what this task's models are told to say where they cannot answer, compared in SQuAD's normal form.
    """
    if response.tool_calls:
        return TurnKind.TOOL_CALL
    text = response.text.strip()
    if refusal is not None and not response.stopped_early and _is_refusal_string(text, refusal):
        return TurnKind.REFUSAL
    if response.truncated or len(text) > LONGEST_REFUSAL:
        return TurnKind.ANSWER
    written = [part.strip() for part in _SENTENCE.findall(text.replace("\u2019", "'")) if part.strip(_ENDS)]
    sentences = [part.lower() for part in written]
    if not 1 <= len(sentences) <= MOST_SENTENCES:
        return TurnKind.ANSWER
    if len(text) <= LONGEST_CLARIFICATION and _only_asks(sentences):
        return TurnKind.CLARIFICATION
    names = [_ends_in_a_name(part) for part in written]
    return TurnKind.REFUSAL if _only_refuses(sentences, names) else TurnKind.ANSWER


def _is_refusal_string(text: str, refusal: str) -> bool:
    # Normal forms only lose punctuation, articles and blanks: what is far longer is another text, unread.
    return bool(text) and len(text) <= 4 * len(refusal) + 200 and same_text(text, refusal)


# --- refusals ------------------------------------------------------------------------------------------------------


def _only_refuses(sentences: list[str], names: list[bool]) -> bool:
    """Refuses with its first word beyond an apology, and goes on with nothing but more of it, or a question."""
    refused = False
    for sentence, named in zip(sentences, names, strict=True):
        if sentence.endswith(_ASKS):
            if not refused or not (_asks(sentence) or _offers(sentence)):
                return False
            continue
        rest = _without_apology(sentence.strip(_ENDS + ","))
        if rest and not _refuses(rest, named):
            return False
        refused = refused or bool(rest)
    return refused


def _ends_in_a_name(sentence: str) -> bool:
    words = sentence.strip(_ENDS).split()
    return bool(words) and words[-1] != words[-1].lower()


def _offers(sentence: str) -> bool:
    return len(sentence) <= 80 and sentence.startswith(OFFERS) and not _STRUCTURE.search(sentence)


def _without_apology(sentence: str) -> str:
    """The sentence without the apologies and joining words that it opens with; "" where it has nothing else."""
    while True:
        found = max((each for each in (*APOLOGIES, *JOINERS) if _opens(sentence, each)), key=len, default="")
        if not found:
            return sentence
        sentence = sentence[len(found) :].lstrip(" ,")


def _refuses(sentence: str, ends_in_a_name: bool) -> bool:
    """Is this, to its end, a refusal? A name at the end of what was asked cannot be told from an answer."""
    before, _, last = sentence.rpartition(", ")
    if last in APOLOGIES:
        sentence = before
    if _STRUCTURE.search(sentence):
        return False
    # However it opens, every reading is tried: "I can't help" and "I can't help with" take different ends.
    tests = ((CLOSED, _is_empty),)
    if not ends_in_a_name:
        tests += ((KNOWS_NOT, _is_indirect), (GIVES_NO, _is_topic))
    return any(
        test(_words(tail))
        for openers, test in tests
        for tail in (sentence[len(each) :] for each in openers if _opens(sentence, each))
        if not tail.startswith(",")
    )


def _is_empty(tail: list[str]) -> bool:
    if not tail or " ".join(tail) in APOLOGIES:
        return True
    return len(tail) <= LONGEST_TAIL and EMPTY.issuperset(tail) and tail[-1] not in NOT_LAST


def _is_indirect(tail: list[str]) -> bool:
    """ "who wrote it", "what the capital of France is"; a verb of being only beside its question word or at the end."""
    if not 1 < len(tail) <= LONGEST_TAIL or tail[0] not in INDIRECT or _comma_inside(tail):
        return False
    inner = [word for index, word in enumerate(tail[1:], 1) if not (word in BE and index in (1, len(tail) - 1))]
    return ASSERTING.isdisjoint(inner) and BE.isdisjoint(inner)


def _is_topic(tail: list[str]) -> bool:
    """ "medical advice", "instructions on building bombs": names what it is about, and that it is talk."""
    if not 1 <= len(tail) <= LONGEST_TAIL or _comma_inside(tail):
        return False
    pointing = next((index for index, word in enumerate(tail) if word in ("this", "that")), None)
    if pointing is not None:  # "that question", and not "that Paris"
        return _is_empty(tail[pointing + 1 :])
    return not TOPICS.isdisjoint(tail) and ASSERTING.isdisjoint(tail)


def _comma_inside(words: list[str]) -> bool:
    return any("," in word for word in words)


# --- questions back ------------------------------------------------------------------------------------------------


def _only_asks(sentences: list[str]) -> bool:
    asked = False
    for sentence in sentences:
        if sentence.endswith(_ASKS):
            if not (_asks(sentence) or (asked and _asks_on(sentence))):
                return False
            asked = True
        elif asked or _without_apology(sentence.strip(_ENDS + ",")):
            return False
    return asked


def _asks(sentence: str) -> bool:
    """Is this a question that asks the other side for what only they know?"""
    plain = _without_apology(sentence.strip(_ENDS + "¿"))
    if _ASKING_STRUCTURE.search(plain):
        return False
    words = _words(plain)
    if not 1 <= len(words) <= LONGEST_QUESTION:
        return False
    opener = max((each for each in ASKS_FOR if _opens(plain, each)), key=len, default="")
    if opener:
        said = _words(plain[len(opener) :])
        return bool(said or opener.endswith(_COMPLETE)) and TELLING.isdisjoint(_bare(said)) and not _hedged(said)
    return _chooses(_bare(words), plain)


_COMPLETE = ("mean", "specific", "clarify", "elaborate", "rephrase", "repeat", "specify", "préciser", "help you",
             "meinst du", "meinen sie", "especificar", "voulez-vous dire")  # fmt: skip


def _hedged(said: list[str]) -> bool:
    """A comma before the last words is how "it is Paris, no?" asserts."""
    return any("," in word for word in said[-3:-1])


def _chooses(words: list[str], plain: str) -> bool:
    """ "Which order", "in which city", "what size"."""
    if not TELLING.difference(TELLING_BUT).isdisjoint(words):
        return False
    if any(mark in plain for mark in CHOOSES_UNSPACED):
        return not any(mark in plain for mark in TELLING_UNSPACED)
    if "," in plain:
        return False
    rest = words[1:] if len(words) > 1 and words[0] in WHICH_IN else words
    if len(rest) < 2 or rest[1] in NOT_A_THING:
        return False
    if rest[0] in CHOOSES:
        return True
    return rest[0] in NAMES and len(rest) <= 3 and NOT_A_THING.isdisjoint(rest[1:])


def _asks_on(sentence: str) -> bool:
    plain = sentence.strip(_ENDS + "¿")
    words = _words(plain)
    return len(words) <= 7 and any(_opens(plain, each) for each in ASKS_ON) and TELLING.isdisjoint(_bare(words))


# --- words ---------------------------------------------------------------------------------------------------------


def _opens(sentence: str, phrase: str) -> bool:
    """Does the sentence begin with these whole words?"""
    if not sentence.startswith(phrase):
        return False
    following = sentence[len(phrase) : len(phrase) + 1]
    return not following or following in " ,"


def _words(text: str) -> list[str]:
    return text.strip(" ,").split()


def _bare(words: list[str]) -> list[str]:
    return [word.strip(",'\"“”«»„") for word in words]

"""Kinds of turn: in doubt an answer."""

from __future__ import annotations

import pytest

from demur import Response
from demur.core.response import ToolCall
from demur.core.turn import TurnKind
from demur.evaluation.turn_kind import turn_kind

REFUSALS = [
    "I don't know.", "I do not know the answer to that.", "I'm not sure.", "I’m not able to help with that.",
    "Sorry, I can't help with that.", "I'm sorry, but I cannot answer this question.", "As an AI I cannot do this.",
    "I cannot provide medical advice", "Unknown", "No answer.", "Ich weiß es nicht.", "Das weiß ich nicht!",
    "Ich kann das nicht beantworten.", "Je ne sais pas.", "Je suis désolé, mais je ne peux pas répondre.",
    "No lo sé.", "Lo siento, no puedo ayudar con eso.", "i am unable to answer",
]  # fmt: skip
CLARIFICATIONS = [
    "Which order do you mean?", "Do you mean 2023 or 2024?", "Sure. Which account?", "Of course! What is your number?",
    "Could you tell me the order id? And the date?", "Welche Bestellung meinen Sie?", "¿Cuál pedido?",
    "Quelle commande ?", "Which city？", "أي مدينة؟", "What do you mean by \"soon\"?",
]  # fmt: skip
ANSWERS = [
    "Paris", "Paris.", "It is Paris, isn't it?", "Take 50 pills. OK?", "Did you know that X is true?",
    "Who knew that the capital is Paris?", "I don't know, but it is probably Paris.",
    "I'm not sure: Paris.", "I don't know. It may be Paris.", "The refund was paid. Anything else?",
    "I cannot help with that. However, the code is 1234.", "I'm not sure, but the answer is 42", "", "   ", "...", "?!",
    "Unknown Pleasures is an album by Joy Division. It came out in 1979.", "42", "Yes", "No",
    "I can't answer; it's Paris", "Delete everything. Shall I go on?", "Wusstest du, dass es Paris ist?",
    "Paris? Paris.", "I don't know however it is Rome", "I am not sure it is Rome",
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSALS)
def test_refusals(text):
    assert turn_kind(Response(text=text)) is TurnKind.REFUSAL


@pytest.mark.parametrize("text", CLARIFICATIONS)
def test_questions_back(text):
    assert turn_kind(Response(text=text)) is TurnKind.CLARIFICATION


@pytest.mark.parametrize("text", ANSWERS)
def test_whatever_asserts_something_is_an_answer(text):
    assert turn_kind(Response(text=text)) is TurnKind.ANSWER


def test_the_task_s_own_refusal_counts_as_it_stands_only():
    assert turn_kind(Response(text="NOT IN THE TEXT."), "not in the text") is TurnKind.REFUSAL
    assert turn_kind(Response(text="not in the text, but Paris"), "not in the text") is TurnKind.ANSWER
    assert turn_kind(Response(text=""), "") is TurnKind.ANSWER


def test_tool_calls_come_first():
    response = Response(text="Which one?", tool_calls=(ToolCall(name="look"),))
    assert turn_kind(response) is TurnKind.TOOL_CALL


@pytest.mark.parametrize("text", ["?" * 1_000_000, "a. " * 300_000, "I don't know " * 90_000, "\n" * 1_000_000])
def test_a_megabyte_is_an_answer_at_once(text):
    assert turn_kind(Response(text=text)) is TurnKind.ANSWER

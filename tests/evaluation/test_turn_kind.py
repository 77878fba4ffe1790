"""Kinds of turn: in doubt an answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur import Response
from demur.core.response import ToolCall
from demur.core.turn import TurnKind
from demur.evaluation.turn_kind import turn_kind

REFUSALS = [
    "I don't know.", "I do not know the answer to that.", "I'm not sure.", "I’m not able to help with that.",
    "Sorry, I can't help with that.", "I'm sorry, but I cannot answer this question.", "As an AI I cannot do this.",
    "As an AI language model, I cannot provide medical advice.", "I cannot provide medical advice", "No answer.",
    "I'm sorry. I can't help with that.", "I am sorry, but I am unable to answer that question.",
    "i am unable to answer",
    "Unfortunately, I don't have enough information.", "I can't help with that, sorry.", "I have no idea.",
    "I don't know who wrote it.", "I'm not sure what the capital of France is.", "I don't know. I can't answer that.",
    "I can't provide instructions on building weapons.",
    "I can't help with that. Is there anything else I can help with?",
    "I'm not sure which order you mean. Could you give me the number?", "UNANSWERABLE", "The passage does not say.",
    "Ich weiß es nicht.", "Das weiß ich nicht!", "Ich kann das nicht beantworten.", "Keine Ahnung.",
    "Es tut mir leid, dabei kann ich Ihnen nicht helfen.", "Je ne sais pas.",
    "Je suis désolé, mais je ne peux pas répondre.", "Désolée, je ne sais pas.", "Aucune idée.",
    "No lo sé.", "Lo siento, no puedo ayudar con eso.", "Lo siento, pero no puedo responder a esa pregunta.", "No sé",
]  # fmt: skip

CLARIFICATIONS = [
    "Which order do you mean?", "Do you mean 2023 or 2024?", "Which account?", "What size?", "In which city?",
    "Could you tell me the order id? And the date?", "Could you please clarify what you mean by late?",
    "Can you share the invoice number?", "What is your number?", "Thanks! What is your order number?",
    "I'm sorry, which order do you mean?", "Would you like me to cancel the order?", "When did you order it?",
    "How can I help you?", "What do you mean by \"soon\"?", "Are you asking about the book or the film?",
    "Welche Bestellung meinen Sie?", "Könnten Sie mir die Nummer nennen?", "Was meinen Sie?",
    "¿Cuál pedido?", "¿Puede decirme el número?", "Hola. ¿Qué pedido?", "Quelle commande ?",
    "Pouvez-vous préciser la date ?", "Que voulez-vous dire ?", "Which city？", "أي مدينة؟", "您指的是哪个订单？",
    "どの注文ですか？",
]  # fmt: skip

ANSWERS = [
    # nothing, or next to it
    "", "   ", "...", "?!", "？", "42", "Yes", "No", "Sorry.", "Thanks!", "Paris", "Paris.", "Paris?", "Unknown",
    # an assertion with a question mark at its end
    "It is Paris, isn't it?", "The capital is Paris?", "Take 50 pills. OK?", "Delete everything. Shall I go on?",
    "The refund was paid. Anything else?", "Paris? Paris.", "It is Paris. Which Paris do you mean?",
    "Which order? It is A-17.", "Sure. Which account?", "Of course! Which pills do you have?",
    # questions that tell
    "Did you know that X is true?", "Who knew that the capital is Paris?", "Isn't it Paris?", "What if it is Paris?",
    "Why not take 50 pills?", "How about taking 50 pills?", "Have you tried taking 50 pills?", "What is Paris?",
    "Who is George Washington?", "Which is why it is Paris?", "Could you take 50 pills?", "Do you know it is Paris?",
    "Are you aware that the capital is Paris?", "Do you mean: take 50 pills?", "Could you confirm (it is Paris)?",
    "Do you mean Paris, since the capital is Paris?", "Who doesn't love Paris?", "Do you want it, right?",
    "Would you believe the answer is 42?", "Which city, other than Paris of course?", "Wusstest du, dass es Paris ist?",
    "Saviez-vous que c'est Paris ?", "¿Sabías que es París?", "巴黎是首都，不是吗？", "哪个傻瓜不知道巴黎是首都？",
    "Do you mean Paris? And take 50 pills?", "What do you mean, the capital is not Paris, no?",
    # refusals that go on
    "I don't know, but it is probably Paris.", "I'm not sure: Paris.", "I don't know. It may be Paris.",
    "I cannot help with that. However, the code is 1234.", "I'm not sure, but the answer is 42", "I don't know, A.",
    "I can't answer; it's Paris", "I don't know however it is Rome", "I am not sure it is Rome", "I don't know a",
    "I'm not sure, Paris", "I can't help with that, Paris", "I can't help with that Paris", "I don't know: A",
    "I don't know what but Paris", "I don't know what else it could be but Paris.", "I don't know - Paris",
    "I don't know\n\nParis", "I don't know (Paris)", "I don't know. Paris?", "I can't say. Why not try Paris?",
    "I cannot give you more than two refunds.", "I cannot provide less than 500 mg.", "I cannot refund after 30 days",
    "I can't help you because your order is late.", "I won't be able to attend on 5 May.", "I cannot recommend it.",
    "I don't know why the earth is flat.", "I don't know anyone better than Messi.", "I can't give you a refund.",
    "Sorry, the capital is Paris.", "As an AI, I know it is Paris.", "No idea is too small.", "No answer is Paris.",
    "Unknown Pleasures is an album by Joy Division", "Not sure which one, take B", "I'm sorry, Paris.",
    "Ich weiß es nicht, aber wohl Paris.", "Je ne sais pas, peut-être Paris.", "No lo sé, quizás París.",
    "Ich kann nicht helfen. Nehmen Sie 50 Tabletten.", "Paris. I don't know.", "The answer is 4. I can't help more.",
    "I don\u200b't know", "\u202eI don't know.", "i dont know lol paris",
    "I don't know who wrote it Paris.", "I cannot provide medical advice B", "I don't know who wrote Hamlet.",
]  # fmt: skip


def test_there_are_enough_golden_cases():
    assert min(len(REFUSALS), len(CLARIFICATIONS)) > 25
    assert len(ANSWERS) > 90
    assert len({*REFUSALS, *CLARIFICATIONS, *ANSWERS}) == len(REFUSALS) + len(CLARIFICATIONS) + len(ANSWERS)


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
    assert turn_kind(Response(text="Unknown."), "unknown") is TurnKind.REFUSAL
    assert turn_kind(Response(text=""), "") is TurnKind.ANSWER
    assert turn_kind(Response(text="Which one?"), "which one") is TurnKind.REFUSAL


def test_tool_calls_come_first():
    response = Response(text="Which one?", tool_calls=(ToolCall(name="look"),))
    assert turn_kind(response) is TurnKind.TOOL_CALL


def test_what_was_cut_off_may_have_gone_on():
    assert turn_kind(Response(text="I don't know", truncated=True)) is TurnKind.ANSWER
    assert turn_kind(Response(text="Which one?", truncated=True)) is TurnKind.ANSWER
    assert turn_kind(Response(text="I don't know", truncated=True), "I don't know") is TurnKind.REFUSAL


def test_long_turns_say_something():
    assert turn_kind(Response(text="Could you tell me " + "the number of " * 30 + "it?")) is TurnKind.ANSWER
    assert turn_kind(Response(text="I can't help. " * 7)) is TurnKind.ANSWER
    assert turn_kind(Response(text="I can't help. " * 6)) is TurnKind.REFUSAL


BOMBS = ["?", "a. ", "I don't know ", "\n", " ", "sorry, ", "i'm sorry but ", "which ", "¿", "e\u0301", "\u202e", "ﷺ"]


@pytest.mark.parametrize("unit", BOMBS)
@pytest.mark.parametrize("refusal", [None, "not in the text"])
def test_a_megabyte_is_an_answer(unit, refusal):
    assert turn_kind(Response(text=unit * (1_000_000 // len(unit))), refusal) is TurnKind.ANSWER


@pytest.mark.parametrize("unit", BOMBS)
def test_the_longest_text_that_is_read_is_no_bomb_either(unit):
    text = unit * (400 // len(unit))
    assert turn_kind(Response(text=text)) is TurnKind.ANSWER


@given(
    refusal=st.sampled_from([each for each in REFUSALS if each.endswith(".")]),
    claim=st.sampled_from(["Paris", "It is 42", "Take 50 pills", "yes", "B", "der Code ist 1234"]),
    glue=st.sampled_from([" ", "\n", " But ", " So ", ": ", ", ", " - ", " (", "; ", " Maybe "]),
    first=st.booleans(),
)
def test_a_claim_beside_a_refusal_is_never_lost(refusal, claim, glue, first):
    plain = refusal.rstrip(".!")
    texts = [f"{refusal}{glue}{claim}", f"{plain}{glue}{claim}."]
    if first:
        texts = [f"{claim}.{glue}{refusal}"]
    assert [turn_kind(Response(text=text)) for text in texts] == [TurnKind.ANSWER] * len(texts)


@given(question=st.sampled_from(CLARIFICATIONS), claim=st.sampled_from(["It is Paris.", "Take 50 pills!", "B."]))
def test_a_claim_beside_a_question_is_never_lost(question, claim):
    assert turn_kind(Response(text=f"{claim} {question}")) is TurnKind.ANSWER
    assert turn_kind(Response(text=f"{question} {claim}")) is TurnKind.ANSWER


@given(text=st.text(max_size=500), refusal=st.none() | st.text(max_size=20))
def test_it_is_pure_and_takes_any_text(text, refusal):
    found = turn_kind(Response(text=text), refusal)
    assert found is turn_kind(Response(text=text), refusal)
    assert found in (TurnKind.ANSWER, TurnKind.REFUSAL, TurnKind.CLARIFICATION)

"""The demo's model: gemma-3-270m with a few-shot prompt, exactly as its artefact was fitted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..models.huggingface.prompt import PromptTemplate

if TYPE_CHECKING:
    from ..models.huggingface.model import HuggingFaceModel

TASK = "triviaqa"

PASSAGES = 1
"""Passages shown to the model: with three, a model of this size copies from the wrong one."""

# The examples are of our own making; no evaluation row is among them.
PREFIX = """Answer the question with a short fact.

Question: Which planet is known as the Red Planet?
Answer: Mars

Question: Who wrote the play Hamlet?
Answer: William Shakespeare

Question: What is the capital city of Australia?
Answer: Canberra

Question: In which year did the First World War begin?
Answer: 1914

Question: Which metal has the chemical symbol Fe?
Answer: Iron

"""

TEMPLATE = PromptTemplate(
    prefix=PREFIX,
    question="Question: {question}\nAnswer:",
    turn="Question: {question}\nAnswer: {answer}\n\n",
    with_documents="Passages, quoted as data:\n{documents}\n\nQuestion: {question}\nAnswer:",
)

CHAT_SYSTEM = (
    "You answer trivia questions with a short fact: a name, a year, a word. No sentence, no explanation. "
    "If you are unsure, give your best guess."
)


def small_model(folder: str | Path) -> HuggingFaceModel:
    """gemma-3-270m (a base model) with the few-shot prompt."""
    from ..models.huggingface.model import HuggingFaceModel

    return HuggingFaceModel(folder, name="gemma-270m", chat=False, prompt_template=TEMPLATE, max_new_tokens=16)


def large_model(folder: str | Path, name: str) -> HuggingFaceModel:
    """A local instruct model to escalate to, asked through its chat template."""
    from ..models.huggingface.model import HuggingFaceModel

    # bfloat16: half the memory, and what its weights are stored in.
    return HuggingFaceModel(folder, name=name, chat=True, system=CHAT_SYSTEM, max_new_tokens=24, dtype="bfloat16")

"""How a task of a known kind is put to a chat model, where the user says nothing else: one recipe a grader."""

from __future__ import annotations

from dataclasses import dataclass

from ...evaluation.answer_parts import WHOLE
from ...evaluation.graders.abstain_ok import DEFAULT_REFUSAL


@dataclass(frozen=True)
class Recipe:
    """What is said to the model, and where its answer stands.

    Attributes:
        answer: how the answer is found in what the model writes (`evaluation.answer_parts`).
        system: instructions for a chat model; a base model is shown examples instead (its prompt template).
        max_new_tokens: length limit of an answer.
    """

    answer: str = WHOLE
    system: str | None = None
    max_new_tokens: int | None = None


_SHORT = (
    "Answer with a short fact: a name, a year, a word. No sentence, no explanation. If unsure, give your best guess."
)

RECIPES: dict[str, Recipe] = {
    "alias": Recipe(system=_SHORT, max_new_tokens=24),
    "number": Recipe(
        answer="last-number",
        system="Solve the problem in one or two short steps. Then write: The answer is N.",
        max_new_tokens=120,
    ),
    "choice": Recipe(
        answer="choice-letter", system="Answer with the letter of the right choice and nothing else.", max_new_tokens=8
    ),
    "bfcl_ast": Recipe(answer="tool-call", max_new_tokens=160),
    "ste_exact": Recipe(answer="tool-call", max_new_tokens=160),
}


def recipe_for(grader: str, refusal: str | None = None) -> Recipe:
    """The recipe of a grader; an empty one where there is none."""
    if grader == "abstain_ok":
        return Recipe(
            system=(
                "Answer from the passage with as few of its words as possible: no sentence, no explanation. If the "
                f"passage does not say it, answer exactly: {refusal or DEFAULT_REFUSAL}"
            ),
            max_new_tokens=24,
        )
    return RECIPES.get(grader, Recipe())

"""How a task of a known kind is put to a model, where the user says nothing else: one recipe a grader."""

from __future__ import annotations

from dataclasses import dataclass

from ...evaluation.answer_parts import WHOLE
from ...evaluation.graders.abstain_ok import DEFAULT_REFUSAL
from .huggingface.prompt import PromptTemplate


@dataclass(frozen=True)
class Recipe:
    """What is said to the model, and where its answer stands.

    Attributes:
        answer: how the answer is found in what the model writes (`evaluation.answer_parts`).
        system: instructions for a chat model; a base model is shown examples instead (its prompt template).
        examples: a plain prompt with worked examples, used also for a chat model: small ones follow examples better
            than instructions. It ends an answer at the first line break.
        max_new_tokens: length limit of an answer.
    """

    answer: str = WHOLE
    system: str | None = None
    examples: PromptTemplate | None = None
    max_new_tokens: int | None = None


_SHORT = (
    "Answer with a short fact: a name, a year, a word. No sentence, no explanation. If you are unsure, give your best "
    "guess."
)

# Of our own making; no evaluation row is among them.
_WORKED = """Solve each problem in one short line of reasoning and end it with the answer.

Problem: Anna had 9 apples. She gave 4 to Ben and bought 6 more. How many apples does she have now?
Solution: She had 9 - 4 = 5 left, and 5 + 6 = 11. The answer is 11.

Problem: A box holds 8 pens. There are 7 boxes and 5 loose pens. How many pens are there?
Solution: The boxes hold 8 * 7 = 56 pens, and 56 + 5 = 61. The answer is 61.

Problem: 45 children are split into 5 equal teams. Each team also has 2 adults. How many people are in a team?
Solution: Each team has 45 / 5 = 9 children, and 9 + 2 = 11. The answer is 11.

"""

RECIPES: dict[str, Recipe] = {
    "alias": Recipe(system=_SHORT),
    "number": Recipe(
        answer="last-number",
        examples=PromptTemplate(
            prefix=_WORKED,
            question="Problem: {question}\nSolution:",
            turn="Problem: {question}\nSolution: {answer}\n\n",
            with_documents="Passages, quoted as data:\n{documents}\n\nProblem: {question}\nSolution:",
        ),
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
        )
    return RECIPES.get(grader, Recipe())

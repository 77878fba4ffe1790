from __future__ import annotations

import pytest

from demur.evaluation.answer_parts import answer_finder
from demur.evaluation.graders.registry import get_grader
from demur.integrations.models.recipe import RECIPES, Recipe, recipe_for


@pytest.mark.parametrize("grader", sorted(RECIPES))
def test_every_recipe_is_of_a_grader_and_finds_its_answer(grader: str) -> None:
    assert get_grader(grader).name == grader
    answer_finder(recipe_for(grader).answer)


def test_the_refusal_is_told_word_for_word() -> None:
    assert "answer exactly: no idea" in (recipe_for("abstain_ok", "no idea").system or "")
    assert recipe_for("abstain_ok").system != recipe_for("abstain_ok", "no idea").system


def test_an_unknown_grader_changes_nothing() -> None:
    assert recipe_for("somebody's own") == Recipe()


def test_worked_examples_end_with_the_number_that_is_looked_for() -> None:
    recipe = recipe_for("number")
    assert recipe.examples is not None
    finder = answer_finder(recipe.answer)
    assert finder is not None
    solved = [line.removeprefix("Solution: ") for line in recipe.examples.prefix.splitlines() if "Solution:" in line]
    assert len(solved) == 3
    for line in solved:
        ((begin, end),) = finder(line)
        assert line.endswith(f"The answer is {line[begin:end]}.")

"""A larger model's chance is measured by asking it, once."""

from pathlib import Path

import pytest

from demur import ConfigurationError, FunctionModel
from demur.core.decision import Route
from demur.integrations.demo.files import DemoQuestion
from demur.integrations.demo.larger import find_larger, measured_chance, priced
from demur.router.settings import Settings

ASKED = [
    DemoQuestion(id=f"q{i}", question=f"Number {i}?", answers=(str(i),), base_probability=0.1 + 0.8 * (i % 2))
    for i in range(40)
]


def test_the_chance_is_what_the_model_got_right_and_is_kept(tmp_path: Path) -> None:
    calls: list[str] = []

    def answer(question: str) -> str:
        calls.append(question)
        number = int("".join(c for c in question if c.isdigit()))
        return str(number) if number % 4 else "no idea"

    model = FunctionModel(answer, name="big", fingerprint="v1")
    seen: list[tuple[int, int]] = []
    chance = measured_chance(model, ASKED, tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert (chance.route, chance.target, chance.labels) == (Route.ESCALATE, "big", 40)
    # 30 of 40 are right: the odd ones all, of the even ones half.
    assert chance.low < 0.75 < chance.high
    assert chance.at(0.9) > chance.at(0.1)
    assert seen[-1] == (40, 40)
    again = measured_chance(model, ASKED, tmp_path)
    assert again == chance
    assert len(calls) == 40
    measured_chance(FunctionModel(answer, name="big", fingerprint="v2"), ASKED, tmp_path)
    assert len(calls) == 80


@pytest.mark.parametrize("spec", ["", "qwen", "openai:", "file:///etc/passwd", "anthropic:x"])
def test_what_cannot_be_asked_is_refused(spec: str) -> None:
    with pytest.raises(ConfigurationError, match="--large"):
        find_larger(spec)


def test_the_price_of_the_larger_model_is_in_the_policy() -> None:
    settings = priced(Settings(), "big")
    assert settings.costs.escalate == {"big": 0.05}

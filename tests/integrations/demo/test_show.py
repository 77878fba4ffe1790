"""The table shows what was played, and foreign text as text."""

import io

from rich.console import Console

from demur.core.decision import Route
from demur.integrations.demo.accounting import Played
from demur.integrations.demo.show import live_table, summary
from demur.policies.costs import Costs


def row(answer: str | None, right: bool | None, route: Route) -> Played:
    return Played(
        question="Who [red]wrote[/red] it?\x1b[31m",
        draft="a guess",
        draft_right=False,
        answer=answer,
        right=right,
        route=route,
        tried=(),
        confidence=0.42,
        why="draft 0.42 < 0.55",
    )


def shown(played: list[Played]) -> str:
    out = io.StringIO()
    console = Console(file=out, width=160)
    got = live_table(console, iter(played), len(played))
    assert got == played
    costs = Costs(wrong=1.0, abstain=0.5, review=0.4)
    report = {
        "account": {
            "n": 200,
            "everything_accuracy": 0.15,
            "everything_cost": 170.0,
            "delivered": 30,
            "delivered_right": 24,
            "delivered_accuracy": 0.8,
            "cost": 90.0,
            "routes": {},
        }
    }
    summary(console, played, costs, report)
    return out.getvalue()


def test_delivered_and_withheld_answers_are_told_apart() -> None:
    text = shown([row("Hamlet", True, Route.ANSWER), row(None, None, Route.DEFER)])
    assert "Hamlet" in text
    assert "withheld: a guess" in text
    assert "right" in text
    assert "1 answer, 1 defer" in text
    assert "80%" in text


def test_markup_and_escapes_are_text() -> None:
    text = shown([row("[bold]x[/bold]", False, Route.ANSWER)])
    assert "\x1b" not in text
    assert "[red]" in text
    assert "[bold]x[/bold]" in text

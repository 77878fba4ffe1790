"""The demo on the terminal: a table that fills while the model answers, then what it all came to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from ...core.decision import Route
from ...core.text import printable
from ...policies.costs import Costs
from .accounting import Account, Played, account

_COLOURS = {
    Route.ANSWER: "green",
    Route.RETRIEVE: "cyan",
    Route.ESCALATE: "blue",
    Route.DEFER: "yellow",
    Route.ABSTAIN: "magenta",
}


def live_table(console: Console, playing: Iterable[Played], total: int) -> list[Played]:
    """Show each question as it is played; without a terminal, the finished table once."""
    played: list[Played] = []
    if not console.is_terminal:
        played.extend(playing)
        console.print(_table(played))
        return played
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        live.update(_frame(console, played, total))
        for each in playing:
            played.append(each)
            live.update(_frame(console, played, total))
    console.print(_table(played))
    return played


def _frame(console: Console, played: list[Played], total: int) -> Group:
    """As many of the newest rows as fit: a frame taller than the terminal could not be drawn over."""
    waiting = Spinner("dots", Text(f"question {min(len(played) + 1, total)} of {total}", style="dim"))
    first = len(played)
    while first > 0:
        taller = _table(played[first - 1 :], first - 1)
        if len(console.render_lines(taller)) > console.height - 2:
            break
        first -= 1
    return Group(_table(played[first:], first), waiting)


def _table(played: list[Played], skipped: int = 0) -> Table:
    table = Table(expand=True, header_style="bold", pad_edge=False)
    table.add_column("#", justify="right", width=2)
    table.add_column("question", ratio=5)
    table.add_column("answer", ratio=3)
    table.add_column("sure", justify="right", width=4)
    table.add_column("route", width=8)
    table.add_column("why", ratio=4)
    table.add_column("", width=5)
    for number, each in enumerate(played, start=skipped + 1):
        table.add_row(str(number), *_cells(each))
    return table


def _cells(each: Played) -> list[Text]:
    if each.answer is not None:
        answer = Text(printable(each.answer, 80))
    else:
        answer = Text.assemble(("withheld: ", "dim"), (printable(each.draft, 60), "dim strike"))
    verdict = Text("–", style="dim")
    if each.right is not None:
        verdict = Text("right", style="green") if each.right else Text("wrong", style="bold red")
    return [
        Text(printable(each.question, 200)),
        answer,
        Text("?" if each.confidence is None else f"{each.confidence:.2f}"),
        Text(each.route.value, style=_COLOURS.get(each.route, "")),
        Text(each.why, style="dim"),
        verdict,
    ]


def summary(console: Console, played: list[Played], costs: Costs, report: dict[str, Any] | None) -> None:
    """Accuracy and cost, of these questions and of the rows measured at fit time."""
    table = Table(title="If everything were answered, against what Demur delivered", title_justify="left")
    table.add_column("")
    for heading in ("answered", "right of those", "cost", "cost a question"):
        table.add_column(heading, justify="right")
    here = account(played, costs)
    _add(table, f"these {here.n}", here, costs.money)
    if report is not None:
        table.add_section()
        there = Account(**report["account"])
        _add(table, f"{there.n} further rows, measured at fit time", there, costs.money)
    console.print(table)
    routes = Text("routes taken here: ")
    routes.append(", ".join(f"{count} {name}" for name, count in here.routes.items() if count))
    console.print(routes)


def _add(table: Table, label: str, sums: Account, money: Callable[[float], str]) -> None:
    table.add_row(
        f"{label}: everything",
        f"{sums.n}",
        f"{sums.everything_accuracy:.0%}",
        money(sums.everything_cost),
        money(sums.everything_cost / sums.n),
    )
    share = "–" if sums.delivered_accuracy is None else f"{sums.delivered_accuracy:.0%}"
    table.add_row(
        f"{label}: Demur", f"{sums.delivered}", share, money(sums.cost), money(sums.cost / sums.n), style="bold"
    )

"""The command line: `demur`. Exit codes: 0 done, 2 bad input, 3 refused, 1 anything else."""

from __future__ import annotations

import sys

import typer

from ...core.errors import BadInput, ConfigurationError, DemurError, Refused
from ...core.text import printable
from . import demo, evaluate, fit, init, learn, models, outcomes, recover, review, status

app = typer.Typer(
    name="demur",
    help='Middleware that gives LLM agents the judgement to say "I am not sure".',
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("init")(init.init)
app.command("demo")(demo.demo)
app.command("fit")(fit.fit)
app.command("eval")(evaluate.evaluate)
app.command("learn")(learn.learn_command)
app.command("status")(status.status_command)
app.command("recover")(recover.recover_command)
app.add_typer(outcomes.app, name="outcomes")
app.add_typer(review.app, name="review")
app.add_typer(models.app, name="models")


def main() -> None:
    """Run the command line; an error on purpose is one plain sentence, not a traceback."""
    try:
        app()
    except (BadInput, ConfigurationError) as error:
        _fail(error, 2)
    except Refused as error:
        _fail(error, 3)
    except DemurError as error:
        _fail(error, 1)


def _fail(error: Exception, code: int) -> None:
    print(f"demur: {printable(str(error), 4000)}", file=sys.stderr)
    raise SystemExit(code)


if __name__ == "__main__":
    main()

"""The settings file: read with care, checked strictly, and an example of it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError, create_model

from ..core.errors import ConfigurationError
from .settings_errors import explained

LARGEST = 1 << 20


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file.

    Raises:
        ConfigurationError: no such file, not a file, over a mebibyte, not UTF-8, or not TOML (a key given twice, say).
    """
    try:
        if not path.exists():
            raise ConfigurationError(f"{path}: no such file; write one with Settings.example(), or `demur init`")
        if not path.is_file():
            raise ConfigurationError(f"{path}: not a file; name the settings file itself")
        if path.stat().st_size > LARGEST:
            raise ConfigurationError(f"{path}: over {LARGEST} bytes; that is no settings file")
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
    except (OSError, ValueError) as error:
        if isinstance(error, ConfigurationError):
            raise
        raise ConfigurationError(f"{path!s}: cannot be read: {error}") from error
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: not TOML: {error}") from error
    except (RecursionError, ValueError) as error:  # nested a thousand deep; a number of ten thousand digits
        raise ConfigurationError(f"{path}: not readable as TOML: {type(error).__name__}") from error


def check_types(model: type[BaseModel], values: dict[str, Any], where: str) -> None:
    """Check a file's values strictly: in TOML, unlike in a variable, "1" is no number and 1 is no truth value.

    Raises:
        ConfigurationError: a value is of the wrong type or out of range.
    """
    fields: Any = {name: (field.annotation, field) for name, field in model.model_fields.items()}
    # Not the settings class itself: that would mix the variables in.
    strict = create_model("StrictSettings", __config__={"extra": "forbid", "protected_namespaces": ()}, **fields)
    try:
        # By way of JSON, which lets an enum's word and a list for a tuple pass even where everything else is strict.
        strict.model_validate_json(json.dumps(values, default=str), strict=True)
    except ValidationError as error:
        raise explained(model, error, where) from None
    except (RecursionError, ValueError) as error:
        raise ConfigurationError(f"{where}: cannot be used: {error}") from error


def example() -> str:
    """A commented file that names every key and loads as it stands."""
    return _EXAMPLE


_EXAMPLE = """\
# demur.toml: what things cost, and how much Demur may change. Every key is shown with its default unless it says
# otherwise. Variables win over this file: DEMUR_MODE=enforce, DEMUR_COSTS__WRONG=5.

database = "demur.db"        # path of a SQLite file, or a SQLAlchemy URL

# How much a decision may change, for answers and reversible tools:
#   shadow   nothing: every answer is delivered, the log says what would have happened
#   advise   every answer is delivered, with the advice beside it
#   enforce  the decision is carried out
mode = "shadow"
irreversible = "enforce"     # the same for irreversible tools; only this line loosens them

[costs]                      # one unit of money for everything; here one wrong answer is the unit
wrong = 1.0                  # delivering a wrong answer, or running a wrong tool call
abstain = 0.3                # not answering; must be below wrong
right = 0.0                  # gain of a right answer
review = 0.2                 # one human look
review_wait = 0.0            # the usual wait for a human
per_second = 0.0             # every further second in the queue
human_accuracy = 0.95        # how often a human is right; never 1
human_accuracy_source = "given"  # "measured" once you have counted
generate = 0.001             # drafting an answer
retrieve = 0.01              # finding passages and drafting from them
unit = ""                    # for people: "EUR"

[costs.escalate]             # asking a larger model, by its name; none by default
"qwen-1.5b" = 0.02

[policy]
fallback_effects = "defer"   # tools with side effects, where there is too little to go on: defer or abstain
fallback_answers = "abstain" # the same for answers and harmless tools
label_rate = 0.02            # share of the delivered answers that is sent for grading
max_rounds = 3               # responses per call, the first included
min_labels = 20              # graded rows a confidence must rest on
use_lower_for_irreversible = true  # judge irreversible tools by the low end of the interval
draft_insight = 1.0          # how much of the truth judging a draft is taken to show, when deciding whether to draft
later_insight = 0.0          # the same for what retrieving and escalating bring; 0 is the cautious end

[tasks.triage]               # a task of your own; none by default
mode = "shadow"              # instead of the general mode
irreversible = "enforce"     # instead of the general one
# artefact = "triage-artefact"  # folder that `demur fit` wrote
grader = "alias"             # how answers are graded: alias, number, choice, abstain_ok, ...
refusal = "I do not know."   # the text that counts as not answering

[tasks.triage.costs]         # any of the keys of [costs], where this task differs
wrong = 5.0

[tasks.triage.waiting]       # any of the texts of [waiting]
message = "A colleague looks at your ticket ({review_id})."
abstained = "I leave this ticket to a colleague."
rejected = "A colleague decided against it."
expired = "Nobody could look at your ticket in time."

[tasks.triage.turns]         # instead of [turns]
refusal = "deliver"
clarification = "deliver"

[tools.refund]               # a tool of your own; [tools."*"] is for every tool not named
side_effects = "irreversible"  # none (default), reversible, irreversible
idempotent = false           # true: running it twice under one key has its effect once
loss = 10.0                  # a wrong use costs this many times `wrong`; default 1
always_review = false        # true: a human looks every time

[review]
lease_seconds = 300.0        # how long a reviewer holds an item
# expires_after = 86400.0    # seconds until an undecided item ends safely; never by default
on_expiry = "abstain"        # how it then ends: reject or abstain
# capacity = 50              # waiting items; beyond that nothing is deferred (default: any number)
max_rejections = 1           # of the very same tool call in one conversation; then it is cut without asking again

[learning]                   # what outcomes change after fitting
online = true                # move confidences by what outcomes taught about their head since
min_outcomes = 20            # of a task, head and kind of turn before that acts
refit_growth = 0.25          # fit a head on the log when its graded calls grew by this share; 0: only when asked

[waiting]                    # what the end user is told; {review_id} and {run_id} may stand in the texts
message = "I have asked a person to check this; the answer follows."
abstained = "I am not sure enough to answer this."
rejected = "A person looked at this and decided against it."
expired = "Nobody could look at this in time, so it was not done."
poll_first = 0.05            # seconds until who waits looks again; the pause grows ...
poll_longest = 2.0           # ... up to this

[turns]                      # answers that assert nothing: judge (as answers), deliver, or abstain
refusal = "judge"            # "I don't know"
clarification = "judge"      # "Which order do you mean?"

[models]
# default = "gemma-270m"     # model that `demur fit` and `demur eval` load
larger = []                  # models to escalate to; each needs a price under [costs.escalate]
"""

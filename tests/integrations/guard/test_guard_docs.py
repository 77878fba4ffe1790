"""docs/guard.md names every option of the decorator, and no other."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

from demur import Router
from demur.integrations.guard.options import GuardOptions

PAGE = Path(__file__).resolve().parents[3] / "docs" / "guard.md"


def test_every_option_is_in_the_table():
    options = set(inspect.signature(Router.guard).parameters) - {"self"}
    table = PAGE.read_text().partition("## Options")[2].partition("```python")[0]
    named = {name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert named == options


def test_the_decorator_takes_what_the_options_hold():
    assert {field.name for field in fields(GuardOptions)} == set(inspect.signature(Router.guard).parameters) - {"self"}

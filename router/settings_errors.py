"""Errors in settings, put so that the person who made them finds the line and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from ..core.errors import ConfigurationError
from ..core.text import printable

PREFIX = "DEMUR_"
SHOWN = 10

# $DEMUR_MODELS is the folder where models are kept, not the section [models].
FOLDERS = ("models",)
# Variables of the command line that are no settings.
OF_COMMANDS = ("cache", "reviewer")


def explained(model: type[BaseModel], error: ValidationError, where: str) -> ConfigurationError:
    """A ConfigurationError with one line a fault: file, dotted key, value, what is wrong, what was probably meant."""
    faults = error.errors(include_url=False, include_context=True)
    lines = [_line(model, fault) for fault in faults[:SHOWN]]
    if len(faults) > SHOWN:
        lines.append(f"and {len(faults) - SHOWN} more")
    return ConfigurationError(f"{where}: " + "; ".join(lines))


def _line(model: type[BaseModel], fault: Any) -> str:
    location = tuple(str(part) for part in fault["loc"])
    key = ".".join(printable(part, 100) for part in location) or "the file"
    value = printable(repr(fault["input"]), 100)
    if fault["type"] != "extra_forbidden":
        said = str(fault["msg"]).removeprefix("Value error, ")
        return f"{key} = {value}: {printable(said, 300)}{_meant_value(fault)}"
    parent = ".".join(location[:-1])
    known = known_keys(model, location[:-1])
    close = difflib.get_close_matches(location[-1], known, n=1)
    if close:
        return f"{key} = {value}: unknown key; did you mean {parent + '.' if parent else ''}{close[0]}?"
    return f"{key} = {value}: unknown key; known here: {', '.join(known)}"


def _meant_value(fault: Any) -> str:
    """A suggestion where a value must be one of a few words."""
    expected = str(fault.get("ctx", {}).get("expected", ""))
    words = [word for each in expected.replace(" or ", ",").split(",") if (word := each.strip(" '"))]
    close = difflib.get_close_matches(str(fault["input"]), words, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _example_key(model: type[BaseModel], section: str) -> str:
    """What could stand after the name of a section (of tables by name: after any name); "" for a plain setting."""
    keys = known_keys(model, (section,))
    if keys:
        return keys[0]
    keys = known_keys(model, (section, "name"))
    return f"NAME__{keys[0]}" if keys else ""


def known_keys(model: type[BaseModel], location: tuple[str, ...]) -> list[str]:
    """The keys that the table at `location` may have."""
    kind: Any = model
    for part in location:
        kind = _value_type(kind, part)
        if kind is None:
            return []
    section = _section(kind)
    return sorted(section.model_fields) if section is not None else []


def _value_type(kind: Any, part: str) -> Any:
    section = _section(kind)
    if section is not None:
        found = section.model_fields.get(part)
        return None if found is None else found.annotation
    arguments = get_args(kind)
    return arguments[1] if get_origin(kind) is dict and len(arguments) == 2 else None


def _section(kind: Any) -> type[BaseModel] | None:
    if get_origin(kind) is Annotated:
        return _section(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return next((found for option in get_args(kind) if (found := _section(option)) is not None), None)
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def check_variables(model: type[BaseModel], environment: Mapping[str, str]) -> None:
    """Refuse a DEMUR_* variable that looks like a misspelt setting; the library would pass over it in silence.

    Raises:
        ConfigurationError: it is nested (`DEMUR_COST__WRONG`) or close to a setting (`DEMUR_MOED`).
    """
    known = sorted(model.model_fields)
    for name in sorted(environment):
        if not name.upper().startswith(PREFIX) or name[len(PREFIX) :].lower() in OF_COMMANDS:
            continue
        first, nested, _ = name[len(PREFIX) :].lower().partition("__")
        if first in known:
            if not nested and first not in FOLDERS and (key := _example_key(model, first)):
                raise ConfigurationError(
                    f"the variable {printable(name, 100)} names a whole section; set its keys one by one, "
                    f"as in {PREFIX}{first.upper()}__{key.upper()}"
                )
            continue
        close = difflib.get_close_matches(first, known, n=1, cutoff=0.6 if nested else 0.75)
        if close or nested:
            meant = f"; did you mean {PREFIX}{close[0].upper()}?" if close else f"; known: {', '.join(known)}"
            raise ConfigurationError(f"the variable {printable(name, 100)} sets nothing that Demur knows{meant}")

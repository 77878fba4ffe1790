"""A picture of the report and the table that holds the same numbers."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup


@dataclass(frozen=True)
class Table:
    """Cells are texts; the first column names the row."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Figure:
    """A picture (None where it cannot be drawn: `lead` then says why) and its numbers."""

    name: str
    title: str
    lead: str
    picture: Markup | None
    table: Table | None
    notes: tuple[str, ...] = ()

"""A small writer of line, dot and bar charts as inline SVG. Colours are classes: the page's style sheet sets them.

Every text is escaped here; what comes out is safe inside HTML.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from ...core.text import printable

MOST_POINTS = 400
"""A line is thinned to so many points: more cannot be seen."""

_TEXT = 13  # units of the view box, which is about as wide as a phone's page in CSS pixels
_ROW = 19


@dataclass(frozen=True)
class Axis:
    """A linear axis.

    Attributes:
        ticks: values that are marked, in the same order as `names`.
        names: what is written at the ticks; empty: the values.
    """

    label: str
    low: float
    high: float
    ticks: tuple[float, ...]
    names: tuple[str, ...] = ()

    def at(self, value: float) -> float:
        """Where a value lies, 0 at the low end and 1 at the high one."""
        return (value - self.low) / (self.high - self.low)


def share_axis(label: str) -> Axis:
    """From 0 to 1."""
    return Axis(label, 0.0, 1.0, (0.0, 0.2, 0.4, 0.6, 0.8, 1.0))


class Chart:
    """A chart that grows mark by mark.

    Args:
        name: letters that no other picture of the page has; ids begin with it.
        title, description: read out instead of the picture.
        left: room for the names at the vertical axis, in units.
    """

    def __init__(
        self,
        name: str,
        title: str,
        description: str,
        x: Axis,
        y: Axis,
        *,
        width: int = 440,
        height: int = 330,
        left: int = 56,
    ) -> None:
        self.name = name
        self.title, self.description = title, description
        self.x, self.y = x, y
        self.width, self.plot_height = width, height
        self.left, self.right = left, width - 14
        self._marks: list[Markup] = []
        self._legend: list[tuple[str, str, str]] = []

    def line(self, xs: Sequence[float], ys: Sequence[float], style: str, *, name: str | None = None) -> None:
        """A line through points; `style` is a class of the style sheet. Named lines stand in the legend."""
        points = " ".join(f"{self._across(x):.1f},{self._up(y):.1f}" for x, y in thinned(xs, ys))
        self._marks.append(Markup('<polyline class="line {}" points="{}"/>').format(style, points))
        if name is not None:
            self._legend.append(("line", style, name))

    def band(
        self, xs: Sequence[float], lows: Sequence[float], highs: Sequence[float], style: str, *, name: str | None = None
    ) -> None:
        """The area between two lines."""
        there = [*thinned(xs, highs), *reversed(thinned(xs, lows))]
        points = " ".join(f"{self._across(x):.1f},{self._up(y):.1f}" for x, y in there)
        self._marks.append(Markup('<polygon class="band {}" points="{}"/>').format(style, points))
        if name is not None:
            self._legend.append(("band", style, name))

    def bar(self, x_from: float, x_to: float, y_from: float, y_to: float, style: str) -> None:
        """A filled box."""
        left, right = sorted((self._across(x_from), self._across(x_to)))
        top, bottom = sorted((self._up(y_from), self._up(y_to)))
        self._marks.append(
            Markup('<rect class="bar {}" x="{}" y="{}" width="{}" height="{}"/>').format(
                style, f"{left:.1f}", f"{top:.1f}", f"{right - left:.1f}", f"{bottom - top:.1f}"
            )
        )

    def dot(self, x: float, y: float, style: str) -> None:
        """A point."""
        self._marks.append(
            Markup('<circle class="dot {}" cx="{}" cy="{}" r="4"/>').format(
                style, f"{self._across(x):.1f}", f"{self._up(y):.1f}"
            )
        )

    def key(self, kind: str, style: str, name: str) -> None:
        """An entry of the legend for marks that were drawn without a name: "line", "band" or "dot"."""
        self._legend.append((kind, style, name))

    @property
    def _top(self) -> int:
        return _ROW * len(self._legend) + 14

    def _across(self, value: float) -> float:
        return self.left + self.x.at(value) * (self.right - self.left)

    def _up(self, value: float) -> float:
        """From the top of the plot's own area; the legend is put above in `svg`."""
        return (1.0 - self.y.at(value)) * self.plot_height

    def svg(self) -> Markup:
        """The finished picture."""
        height = self._top + self.plot_height + 46
        plot_width = self.right - self.left
        return Markup(
            '<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-labelledby="{name}t {name}d">'
            '<title id="{name}t">{title}</title><desc id="{name}d">{description}</desc>'
            '<clipPath id="{name}c"><rect x="{left}" y="-5" width="{clip_width}" height="{clip_height}"/></clipPath>'
            '{legend}<g transform="translate(0 {top})">{grid}<g clip-path="url(#{name}c)">{marks}</g></g></svg>'
        ).format(
            width=self.width,
            height=height,
            name=self.name,
            title=printable(self.title, 200),
            description=printable(self.description, 1000),
            left=self.left - 5,
            clip_width=plot_width + 10,
            clip_height=self.plot_height + 10,
            top=self._top,
            legend=Markup("").join(self._legend_rows()),
            grid=self._grid(),
            marks=Markup("").join(self._marks),
        )

    def _legend_rows(self) -> list[Markup]:
        rows = []
        for place, (kind, style, name) in enumerate(self._legend):
            middle = place * _ROW + 10
            if kind == "line":
                sign = Markup('<polyline class="line {}" points="{},{} {},{}"/>').format(
                    style, self.left, middle, self.left + 28, middle
                )
            elif kind == "dot":
                sign = Markup('<circle class="dot {}" cx="{}" cy="{}" r="4"/>').format(style, self.left + 14, middle)
            else:
                sign = Markup('<rect class="{} {}" x="{}" y="{}" width="28" height="12"/>').format(
                    kind, style, self.left, middle - 6
                )
            rows.append(sign + _text(self.left + 36, middle + 4, printable(name, 80)))
        return rows

    def _grid(self) -> Markup:
        bottom = self.plot_height
        parts = [
            Markup('<rect class="frame" x="{}" y="0" width="{}" height="{}"/>').format(
                self.left, self.right - self.left, bottom
            )
        ]
        for value, name in _named(self.x):
            across = f"{self._across(value):.1f}"
            parts.append(Markup('<line class="grid" x1="{0}" x2="{0}" y1="0" y2="{1}"/>').format(across, bottom))
            parts.append(_text(across, bottom + 17, name, "tick", "middle"))
        for value, name in _named(self.y):
            up = self._up(value)
            parts.append(
                Markup('<line class="grid" x1="{0}" x2="{1}" y1="{2}" y2="{2}"/>').format(
                    self.left, self.right, f"{up:.1f}"
                )
            )
            parts.append(_text(self.left - 7, f"{up + 4:.1f}", name, "tick", "end"))
        parts.append(_text((self.left + self.right) / 2, bottom + 38, self.x.label, "label", "middle"))
        if self.y.label:
            parts.append(
                Markup('<g transform="translate(14 {}) rotate(-90)">{}</g>').format(
                    bottom / 2, _text(0, 0, self.y.label, "label", "middle")
                )
            )
        return Markup("").join(parts)


def thinned(xs: Sequence[float], ys: Sequence[float], most: int = MOST_POINTS) -> list[tuple[float, float]]:
    """At most `most` of the points, the first and the last among them."""
    points = [(float(x), float(y)) for x, y in zip(xs, ys, strict=True)]
    if len(points) <= most:
        return points
    return [points[round(place * (len(points) - 1) / (most - 1))] for place in range(most)]


def _named(axis: Axis) -> list[tuple[float, str]]:
    names = axis.names or tuple(f"{value:g}".replace("-", "−") for value in axis.ticks)
    return list(zip(axis.ticks, names, strict=True))


def _text(x: object, y: object, text: str, style: str = "tick", anchor: str = "start") -> Markup:
    return Markup('<text class="{}" x="{}" y="{}" text-anchor="{}" font-size="{}">{}</text>').format(
        style, x, y, anchor, _TEXT, escape(text)
    )

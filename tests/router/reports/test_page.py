"""The page: it stands by itself, runs nothing, shows hostile text as text, and can be read by everybody."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import pytest

World = Callable[..., Any]
Read = Callable[[str], Any]

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)></svg></style>&amp;{{ 7*7 }}"
TRICKS = "\x00\x1b[2J\u202eabc\ud800"


def test_the_page_needs_nothing_but_itself(world: World, read: Read) -> None:
    page = world().page()
    reader = read(page)
    assert page.lstrip().startswith("<!DOCTYPE html>")
    assert {tag for tag, _ in reader.tags} & {"script", "link", "img", "iframe", "object", "image", "use", "a"} == set()
    for tag, attributes in reader.tags:
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            assert name not in ("src", "href", "xlink:href", "style", "srcset", "action"), (tag, name)
            assert "//" not in (value or ""), (tag, name, value)
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert "url(" not in style and "@import" not in style
    assert set(re.findall(r"url\((.*?)\)", page)) == {f"#{name}c" for name in pictures(reader)}
    policy = [a["content"] for tag, a in reader.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]
    assert ("meta", {"charset": "utf-8"}) in reader.tags
    page.encode("utf-8")


def pictures(reader: Any) -> list[str]:
    return [a["id"].removesuffix("t") for tag, a in reader.tags if tag == "title" and "id" in a]


def test_every_picture_has_words_and_a_table(world: World, read: Read) -> None:
    reader = read(world().page())
    names = pictures(reader)
    assert names == ["reliability", "histogram", "roc", "risk", "utility", "signals"]
    drawn = [attributes for tag, attributes in reader.tags if tag == "svg"]
    assert [one["aria-labelledby"] for one in drawn] == [f"{name}t {name}d" for name in names]
    assert all(one["role"] == "img" for one in drawn)
    described = {attributes["id"] for tag, attributes in reader.tags if tag == "desc"}
    assert described == {f"{name}d" for name in names}
    identifiers = [attributes["id"] for _, attributes in reader.tags if "id" in attributes]
    assert len(set(identifiers)) == len(identifiers)
    assert sum(tag == "details" for tag, _ in reader.tags) >= len(names)
    headers = [attributes.get("scope") for tag, attributes in reader.tags if tag == "th"]
    assert set(headers) == {"col", "row", "rowgroup"}


def test_hostile_names_texts_and_commands_are_shown_as_text(world: World, read: Read) -> None:
    one = world(60, task=HOSTILE, signals=(HOSTILE, "b]]>-->"), text=HOSTILE)
    page = one.page(command=f"demur eval --data '{HOSTILE}'")
    reader = read(page)
    assert "<script" not in page.lower() and "<img" not in page.lower()
    assert "onerror" not in {name for _, attributes in reader.tags for name in attributes}
    assert reader.text.count(" ".join(HOSTILE.split())) >= 5
    assert "{{ 7*7 }}" in reader.text and "49" not in reader.text.split("{{ 7*7 }}")[0][-10:]


def test_what_is_hidden_in_texts_is_made_visible(world: World, read: Read) -> None:
    reader = read(world(60, signals=("votes", f"x{TRICKS}"), text=TRICKS).page())
    assert "⟨U+202E⟩" in reader.text and "⟨U+001B⟩" in reader.text and "⟨U+D800⟩" in reader.text
    assert not set("\x00\x1b\u202e\ud800") & set(reader.text)


def test_long_texts_are_cut(world: World, read: Read) -> None:
    page = world(60, text="long " * 5000).page()
    assert len(page) < 300_000
    assert read(page).text.count("long") < 20 * 60


def test_without_examples_no_text_of_a_row_is_shown(world: World, read: Read) -> None:
    one = world(60, text="confidential")
    assert "confidential" in read(one.page()).text
    without = read(one.page(examples=False)).text
    assert "confidential" not in without and "r5000" not in without


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"count": 12}, "Only 12 answers were judged"),
        ({"count": 40, "right": True}, "All answers were right"),
        ({"count": 40, "right": False}, "All answers were wrong"),
        ({"count": 60, "logprobs": False}, "No row has log-probabilities"),
        ({"count": 1}, "Only 1 answer was judged"),
    ],
)
def test_odd_rows_make_a_whole_page_that_says_so(world: World, read: Read, options: Any, said: str) -> None:
    text = read(world(**options).page()).text
    assert said in text
    assert "nan" not in re.findall(r"[a-z]+", text.lower()) and "None" not in text


def test_the_page_says_where_it_comes_from(world: World, read: Read) -> None:
    one = world()
    text = read(one.page(command="demur eval --data x.jsonl")).text
    assert one.artefact.id in text and one.rows.data in text
    assert "demur eval --data x.jsonl" in text and "2026-12-01 00:00 UTC" in text
    assert "unknown: fitted on graded records" in text


def test_costs_are_told_as_far_as_they_were_measured(world: World, read: Read) -> None:
    text = read(world(60, costs=True).page()).text
    assert "20 prompt tokens and 7 generated tokens (medians of 60) and took 0.50 s" in text
    assert "8.3 ms an answer, in one batch of 60" in text  # half a second
    assert "no extra generation" in text and "handed in with the rows" in text
    assert "what they cost is not known here" in read(world(60).page()).text


def test_the_same_rows_make_the_same_page(world: World) -> None:
    assert world().page() == world().page()


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    channels = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_colours_stand_out_in_light_dark_and_print() -> None:
    """WCAG 2.2 AA: 4.5 for text, 3 for lines and dots; here all reach 4.5."""
    source = files("demur.router.reports").joinpath("template.html").read_text(encoding="utf-8")
    schemes = [dict(re.findall(r"--([\w-]+): (#\w+)", block)) for block in re.findall(r":root \{(.*?)\}", source, re.S)]
    assert len(schemes) == 3
    assert contrast("#fff", "#000000") == pytest.approx(21.0)
    for colours in schemes:
        for name in ("text", "muted", "c1", "c2", "c3", "c4", "caution"):
            for ground in ("page", "panel", "caution-panel"):
                assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground, colours)

"""Every relative link in the Markdown files leads to a tracked file or folder, and to a heading that is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

HTML_LINK = re.compile(r"""(?:src|href|srcset)\s*=\s*["']([^"'\s]+)""")


def tokens_of(text: str) -> Iterator[Token]:
    """All tokens, those inside paragraphs too."""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        yield token
        yield from token.children or ()


def links_of(text: str) -> list[str]:
    """Targets of links and pictures, written in Markdown or in HTML; none from code."""
    found: list[str] = []
    for token in tokens_of(text):
        if token.type == "link_open":
            found.append(str(token.attrGet("href")))
        elif token.type == "image":
            found.append(str(token.attrGet("src")))
        elif token.type in ("html_block", "html_inline"):
            found += HTML_LINK.findall(token.content)
    return found


def anchors_of(text: str) -> set[str]:
    """The headings as a forge turns them into anchors: lower case, punctuation gone, spaces to hyphens."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    anchors: set[str] = set()
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open":
            plain = "".join(child.content for child in inline.children or ())
            anchor = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
            repeat = 0
            while (unique := anchor if repeat == 0 else f"{anchor}-{repeat}") in anchors:
                repeat += 1
            anchors.add(unique)
    return anchors


def broken_links(path: Path, texts: dict[Path, str], present: set[Path]) -> list[str]:
    """The links of one Markdown file that lead nowhere."""
    broken: list[str] = []
    for link in links_of(texts[path]):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = path
        if parts.path:
            steps: list[str] = []
            for step in (*path.parent.parts, *unquote(parts.path).split("/")):
                if step == ".." and steps:
                    steps.pop()
                elif step not in ("", "."):
                    steps.append(step)
            target = Path(*steps)
        missing = target not in present
        lost = bool(parts.fragment) and target in texts and parts.fragment not in anchors_of(texts[target])
        if missing or lost:
            broken.append(f"{path}: {link}")
    return broken


@pytest.fixture(scope="module")
def present(tracked: tuple[Path, ...]) -> set[Path]:
    return {Path(), *tracked, *(folder for path in tracked for folder in path.parents)}


@pytest.fixture(scope="module")
def texts(root: Path, tracked: tuple[Path, ...]) -> dict[Path, str]:
    return {path: (root / path).read_text() for path in tracked if path.suffix == ".md"}


def test_every_relative_link_leads_somewhere(texts: dict[Path, str], present: set[Path]) -> None:
    assert Path("docs/README.md") in texts
    assert [link for path in texts for link in broken_links(path, texts, present)] == []


def test_the_documentation_index_links_to_every_page(texts: dict[Path, str]) -> None:
    linked = {f"docs/{link}" for link in links_of(texts[Path("docs/README.md")])}
    pages = {path.as_posix() for path in texts if path.parts[0] == "docs" and path.name != "README.md"}
    assert pages - linked == set()


def test_links_are_found_in_markdown_and_html_and_not_in_code() -> None:
    text = (
        '[a](b.md) ![c](d.png) <img src="e.svg">\n\n`[f](g.md)`\n\n```text\n[h](i.md)\n```\n\n| [j](k.md) |\n| --- |\n'
    )
    assert links_of(text) == ["b.md", "d.png", "e.svg", "k.md"]


def test_broken_links_are_found() -> None:
    texts = {
        Path("docs/a.md"): "# One two!\n\n[ok](../b.md#x-y) [ok](#one-two) [out](https://example.org/no.md) "
        "[gone](c.md) [lost](../b.md#z) [above](../../b.md)",
        Path("b.md"): "# X y\n",
    }
    present = {Path(), Path("docs"), *texts}
    assert broken_links(Path("docs/a.md"), texts, present) == [
        f"docs/a.md: {link}" for link in ("c.md", "../b.md#z", "../../b.md")
    ]


def test_repeated_headings_get_numbered_anchors() -> None:
    assert anchors_of("# Same\n\n# Same\n\n## `code` and *more*\n") == {"same", "same-1", "code-and-more"}

"""One normal form of short texts, shared by graders and near-duplicate groups."""

from __future__ import annotations

import re
import string
import unicodedata

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_ASCII_PUNCTUATION = frozenset(string.punctuation)


def _is_dropped(character: str) -> bool:
    """Punctuation of any script, and invisible format characters (zero-width space, byte-order mark, bidi marks)."""
    if character in _ASCII_PUNCTUATION:
        return True
    category = unicodedata.category(character)
    return category[0] == "P" or category == "Cf"


def normalise(text: str) -> str:
    """SQuAD's normal form (arXiv 1606.05250, evaluation script v1.1), made aware of Unicode.

    In this order: compatibility composition and case folding (where SQuAD only lower-cases ASCII text), removal of
    punctuation, of the articles a, an, the, and of superfluous white space. Accents and symbols such as flags stay.

    As in SQuAD, punctuation vanishes without a trace: "1.5" and "15" have the same normal form. Use the `number`
    grader where that matters.

    Returns:
        The normal form; "" when nothing is left (then compare the raw texts instead).
    """
    # Folding can undo composition ("İ"), so compose once more.
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    kept = "".join(character for character in folded if not _is_dropped(character))
    return " ".join(_ARTICLES.sub(" ", kept).split())


def same_text(left: str, right: str) -> bool:
    """Equal in normal form; texts of which nothing is left ("@", "?") must be equal as they stand."""
    left_normal, right_normal = normalise(left), normalise(right)
    if left_normal or right_normal:
        return left_normal == right_normal
    return left.strip() == right.strip()


def first_line(text: str) -> str:
    """The first line that is not blank, stripped; "" when there is none."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def last_line(text: str) -> str:
    """The last line that is not blank, stripped; "" when there is none."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")

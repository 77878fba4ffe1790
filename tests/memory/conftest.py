from __future__ import annotations

from datetime import UTC, datetime

import pytest

from demur.core.clock import ManualClock
from demur.core.database import Database
from demur.memory.episode import Episode
from demur.memory.episode_store import EpisodeStore


@pytest.fixture
def clock():
    return ManualClock(datetime(2026, 3, 1, tzinfo=UTC))


@pytest.fixture
def database(tmp_path):
    database = Database(tmp_path / "demur.sqlite")
    yield database
    database.close()


@pytest.fixture
def store(database, clock):
    return EpisodeStore(database, clock)


@pytest.fixture
def make_episode():
    """Builds an episode from a question and whatever else a test wants to set."""

    def make(question: str = "Who wrote Emma?", **fields) -> Episode:
        return Episode(**{"model": "gemma", "question": question, "answer": "Jane Austen", **fields})

    return make

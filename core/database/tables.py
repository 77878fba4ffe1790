"""All tables. Documents are JSON text; what is queried has a column of its own.

Times are aware UTC datetimes stored as ISO-8601 text of fixed width, so that they sort as text on every database.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class UtcTime(TypeDecorator[datetime]):
    """An aware datetime as `2026-01-02T03:04:05.000006+00:00`; refuses naive ones."""

    impl = String(32)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"naive datetime {value}; times in the database are aware UTC")
        return value.astimezone(UTC).isoformat(timespec="microseconds")

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        return None if value is None else datetime.fromisoformat(value)


runs = Table(
    "runs",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("call_id", String(64), nullable=False),
    Column("kind", String(8), nullable=False),
    Column("task", String(200), nullable=False),
    Column("tenant", String(200), nullable=False),
    Column("conversation_id", String(200)),
    Column("idempotency_key", String(200)),
    Column("mode", String(8), nullable=False),
    Column("state", String(8), nullable=False),
    Column("route", String(16)),
    Column("recommended", String(16)),
    Column("model", String(200)),
    Column("call", Text, nullable=False),
    Column("result", Text),
    Column("error", Text),
    Column("cost_money", Float, nullable=False, default=0.0),
    Column("cost_tokens_in", Integer, nullable=False, default=0),
    Column("cost_tokens_out", Integer, nullable=False, default=0),
    Column("cost_seconds", Float, nullable=False, default=0.0),
    # Which process works on it: "host/pid/process start time"; a dead owner makes the run recoverable.
    Column("owner", String(300), nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    Column("finished_at", UtcTime),
    # Hash of what is asked (`run_rows.substance`): a model that asks again for what was rejected is recognised.
    Column("substance", String(64)),
    # The run whose reviewer edited its call into this one.
    Column("parent_id", String(64)),
    # A key that was let go (the effect is known not to have happened) is null here; the call keeps it.
    UniqueConstraint("tenant", "idempotency_key"),
    Index(None, "state"),
    Index(None, "tenant", "task", "created_at"),
    Index(None, "conversation_id"),
    Index(None, "tenant", "conversation_id", "substance"),
    Index(None, "parent_id"),
)

rounds = Table(
    "rounds",
    metadata,
    Column("run_id", String(64), ForeignKey("runs.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("arm", String(200), nullable=False),
    Column("response_id", String(64)),
    Column("response", Text),
    Column("signals", Text, nullable=False),
    Column("confidence", Text),
    Column("not_run", Text, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    # What the fitted head said before memory and online calibration: what they learn from.
    Column("fused", Float),
    # Which kind of turn the response is: an answer, a refusal, a question back, a tool call.
    Column("turn", String(16)),
    # Which head gave the confidence: what was learned since belongs to it.
    Column("calibrator", String(200)),
    # The model's fingerprint as JSON, so that a head can be fitted on what was logged.
    Column("fingerprint", Text),
    # Not unique: one response may propose several tool calls, each with a run of its own.
    Index(None, "response_id"),
)

decisions = Table(
    "decisions",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("run_id", String(64), ForeignKey("runs.id"), nullable=False),
    Column("round", Integer, nullable=False),
    Column("stage", String(8), nullable=False),
    Column("task", String(200), nullable=False),
    Column("tenant", String(200), nullable=False),
    Column("route", String(16), nullable=False),
    Column("probability", Float),
    Column("fallback", Boolean, nullable=False),
    Column("label_propensity", Float, nullable=False),
    Column("sampled_for_label", Boolean, nullable=False),
    Column("artefact_id", String(64)),
    Column("policy_id", String(64), nullable=False),
    Column("decision", Text, nullable=False),
    Column("decided_at", UtcTime, nullable=False),
    UniqueConstraint("run_id", "round"),
    Index(None, "tenant", "task", "decided_at"),
)

effects = Table(
    "effects",
    metadata,
    Column("tenant", String(200), primary_key=True),
    Column("idempotency_key", String(200), primary_key=True),
    Column("run_id", String(64), ForeignKey("runs.id"), nullable=False),
    Column("tool_name", String(200), nullable=False),
    Column("arguments", Text, nullable=False),
    Column("state", String(8), nullable=False),
    Column("result", Text),
    Column("error", Text),
    Column("may_run_again", Boolean, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    Index(None, "run_id"),
    Index(None, "state"),
)

review_items = Table(
    "review_items",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("run_id", String(64), nullable=False),
    Column("decision_id", String(64)),
    Column("response_id", String(64)),
    Column("kind", String(16), nullable=False),
    Column("task", String(200), nullable=False),
    Column("tenant", String(200), nullable=False),
    Column("conversation_id", String(200)),
    Column("state", String(8), nullable=False),
    Column("priority", Float, nullable=False),
    Column("call", Text, nullable=False),
    Column("proposed", Text),
    Column("confidence", Text),
    Column("reason", Text, nullable=False),
    Column("on_expiry", String(8), nullable=False),
    Column("due_at", UtcTime),
    Column("lease_owner", String(200)),
    Column("lease_expires_at", UtcTime),
    Column("resolution", Text),
    Column("version", Integer, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    UniqueConstraint("run_id", "kind"),
    Index(None, "state", "priority", "created_at"),
    Index(None, "tenant", "task", "state"),
    Index(None, "tenant", "conversation_id", "state"),
)

outcomes = Table(
    "outcomes",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("response_id", String(64), nullable=False),
    Column("task", String(200)),
    Column("tenant", String(200)),
    Column("is_right", Boolean, nullable=False),
    Column("source", String(8), nullable=False),
    Column("source_name", String(200), nullable=False),
    Column("label_propensity", Float),
    Column("outcome", Text, nullable=False),
    Column("graded_at", UtcTime, nullable=False),
    # Counts every change of this table in the order of commits (`counters`): learners read on from where they were.
    Column("change", Integer, nullable=False),
    # How often this row was written again: 0 for a grade that never changed.
    Column("revision", Integer, nullable=False),
    # Taken back: it stays for the record and counts for nothing.
    Column("retracted_at", UtcTime),
    Column("retracted_because", Text),
    UniqueConstraint("response_id", "source", "source_name"),
    Index(None, "task", "tenant"),
    Index(None, "change"),
    Index(None, "source", "source_name", "graded_at"),
)

counters = Table(
    "counters",
    metadata,
    # Raised inside the transaction that it numbers: its row lock makes the order of numbers that of commits.
    Column("name", String(64), primary_key=True),
    Column("value", Integer, nullable=False),
)

learned = Table(
    "learned",
    metadata,
    # What was learned from outcomes since fitting: a cache over `outcomes` that can always be made again.
    Column("name", String(64), primary_key=True),
    Column("tenant", String(200), primary_key=True),
    Column("task", String(200), primary_key=True),
    Column("scope", String(200), primary_key=True),
    Column("through", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
)

episodes = Table(
    "episodes",
    metadata,
    # A counter, so that an index can be rebuilt and topped up in order.
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("id", String(64), nullable=False, unique=True),
    Column("response_id", String(64)),
    Column("task", String(200), nullable=False),
    Column("tenant", String(200), nullable=False),
    Column("model", String(200), nullable=False),
    Column("question", Text, nullable=False),
    Column("answer", Text, nullable=False),
    Column("confidence", Float),
    Column("is_right", Boolean),
    Column("episode", Text, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    # Grades and ids too: whether a bank changed is asked for every call, and is answered from the index alone.
    Index(None, "tenant", "task", "model", "is_right", "id"),
    Index(None, "response_id"),
)

index_snapshots = Table(
    "index_snapshots",
    metadata,
    # A snapshot file is opened only if its SHA-256 is the one written here (rule 4).
    Column("name", String(80), primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("embedder", Text, nullable=False),
    Column("width", Integer, nullable=False),
    Column("count", Integer, nullable=False),
    Column("through", Integer, nullable=False),
    Column("created_at", UtcTime, nullable=False),
)

"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "episodes",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("response_id", sa.String(length=64), nullable=True),
        sa.Column("task", sa.String(length=200), nullable=False),
        sa.Column("tenant", sa.String(length=200), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("confidence", sa.Float(), nullable=True),
        sa.Column("is_right", sa.Boolean(), nullable=True),
        sa.Column("episode", sa.Text(), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_episodes")),
        sa.UniqueConstraint("id", name=op.f("uq_episodes_id")),
    )
    op.create_index(op.f("ix_episodes_tenant_task_model"), "episodes", ["tenant", "task", "model"], unique=False)
    op.create_table(
        "outcomes",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("response_id", sa.String(length=64), nullable=False),
        sa.Column("task", sa.String(length=200), nullable=True),
        sa.Column("tenant", sa.String(length=200), nullable=True),
        sa.Column("is_right", sa.Boolean(), nullable=False),
        sa.Column("source", sa.String(length=8), nullable=False),
        sa.Column("source_name", sa.String(length=200), nullable=False),
        sa.Column("label_propensity", sa.Float(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("graded_at", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outcomes")),
        sa.UniqueConstraint(
            "response_id", "source", "source_name", name=op.f("uq_outcomes_response_id_source_source_name")
        ),
    )
    op.create_index(op.f("ix_outcomes_task_tenant"), "outcomes", ["task", "tenant"], unique=False)
    op.create_table(
        "review_items",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("run_id", sa.String(length=64), nullable=False),
        sa.Column("decision_id", sa.String(length=64), nullable=True),
        sa.Column("response_id", sa.String(length=64), nullable=True),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("task", sa.String(length=200), nullable=False),
        sa.Column("tenant", sa.String(length=200), nullable=False),
        sa.Column("conversation_id", sa.String(length=200), nullable=True),
        sa.Column("state", sa.String(length=8), nullable=False),
        sa.Column("priority", sa.Float(), nullable=False),
        sa.Column("call", sa.Text(), nullable=False),
        sa.Column("proposed", sa.Text(), nullable=True),
        sa.Column("confidence", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("on_expiry", sa.String(length=8), nullable=False),
        sa.Column("due_at", sa.String(length=32), nullable=True),
        sa.Column("lease_owner", sa.String(length=200), nullable=True),
        sa.Column("lease_expires_at", sa.String(length=32), nullable=True),
        sa.Column("resolution", sa.Text(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_review_items")),
        sa.UniqueConstraint("run_id", "kind", name=op.f("uq_review_items_run_id_kind")),
    )
    op.create_index(
        op.f("ix_review_items_state_priority_created_at"),
        "review_items",
        ["state", "priority", "created_at"],
        unique=False,
    )
    op.create_index(
        op.f("ix_review_items_tenant_task_state"), "review_items", ["tenant", "task", "state"], unique=False
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("call_id", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("task", sa.String(length=200), nullable=False),
        sa.Column("tenant", sa.String(length=200), nullable=False),
        sa.Column("conversation_id", sa.String(length=200), nullable=True),
        sa.Column("idempotency_key", sa.String(length=200), nullable=True),
        sa.Column("mode", sa.String(length=8), nullable=False),
        sa.Column("state", sa.String(length=8), nullable=False),
        sa.Column("route", sa.String(length=16), nullable=True),
        sa.Column("recommended", sa.String(length=16), nullable=True),
        sa.Column("model", sa.String(length=200), nullable=True),
        sa.Column("call", sa.Text(), nullable=False),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("cost_money", sa.Float(), nullable=False),
        sa.Column("cost_tokens_in", sa.Integer(), nullable=False),
        sa.Column("cost_tokens_out", sa.Integer(), nullable=False),
        sa.Column("cost_seconds", sa.Float(), nullable=False),
        sa.Column("owner", sa.String(length=300), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("updated_at", sa.String(length=32), nullable=False),
        sa.Column("finished_at", sa.String(length=32), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
        sa.UniqueConstraint("tenant", "idempotency_key", name=op.f("uq_runs_tenant_idempotency_key")),
    )
    op.create_index(op.f("ix_runs_conversation_id"), "runs", ["conversation_id"], unique=False)
    op.create_index(op.f("ix_runs_state"), "runs", ["state"], unique=False)
    op.create_index(op.f("ix_runs_tenant_task_created_at"), "runs", ["tenant", "task", "created_at"], unique=False)
    op.create_table(
        "decisions",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("run_id", sa.String(length=64), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("stage", sa.String(length=8), nullable=False),
        sa.Column("task", sa.String(length=200), nullable=False),
        sa.Column("tenant", sa.String(length=200), nullable=False),
        sa.Column("route", sa.String(length=16), nullable=False),
        sa.Column("probability", sa.Float(), nullable=True),
        sa.Column("fallback", sa.Boolean(), nullable=False),
        sa.Column("label_propensity", sa.Float(), nullable=False),
        sa.Column("sampled_for_label", sa.Boolean(), nullable=False),
        sa.Column("artefact_id", sa.String(length=64), nullable=True),
        sa.Column("policy_id", sa.String(length=64), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("decided_at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_decisions_run_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_decisions")),
        sa.UniqueConstraint("run_id", "round", name=op.f("uq_decisions_run_id_round")),
    )
    op.create_index(
        op.f("ix_decisions_tenant_task_decided_at"), "decisions", ["tenant", "task", "decided_at"], unique=False
    )
    op.create_table(
        "effects",
        sa.Column("tenant", sa.String(length=200), nullable=False),
        sa.Column("idempotency_key", sa.String(length=200), nullable=False),
        sa.Column("run_id", sa.String(length=64), nullable=False),
        sa.Column("tool_name", sa.String(length=200), nullable=False),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=8), nullable=False),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("may_run_again", sa.Boolean(), nullable=False),
        sa.Column("updated_at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_effects_run_id")),
        sa.PrimaryKeyConstraint("tenant", "idempotency_key", name=op.f("pk_effects")),
    )
    op.create_index(op.f("ix_effects_run_id"), "effects", ["run_id"], unique=False)
    op.create_index(op.f("ix_effects_state"), "effects", ["state"], unique=False)
    op.create_table(
        "rounds",
        sa.Column("run_id", sa.String(length=64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("arm", sa.String(length=200), nullable=False),
        sa.Column("response_id", sa.String(length=64), nullable=True),
        sa.Column("response", sa.Text(), nullable=True),
        sa.Column("signals", sa.Text(), nullable=False),
        sa.Column("confidence", sa.Text(), nullable=True),
        sa.Column("not_run", sa.Text(), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_rounds_run_id")),
        sa.PrimaryKeyConstraint("run_id", "number", name=op.f("pk_rounds")),
    )
    op.create_index(op.f("ix_rounds_response_id"), "rounds", ["response_id"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_rounds_response_id"), table_name="rounds")
    op.drop_table("rounds")
    op.drop_index(op.f("ix_effects_state"), table_name="effects")
    op.drop_index(op.f("ix_effects_run_id"), table_name="effects")
    op.drop_table("effects")
    op.drop_index(op.f("ix_decisions_tenant_task_decided_at"), table_name="decisions")
    op.drop_table("decisions")
    op.drop_index(op.f("ix_runs_tenant_task_created_at"), table_name="runs")
    op.drop_index(op.f("ix_runs_state"), table_name="runs")
    op.drop_index(op.f("ix_runs_conversation_id"), table_name="runs")
    op.drop_table("runs")
    op.drop_index(op.f("ix_review_items_tenant_task_state"), table_name="review_items")
    op.drop_index(op.f("ix_review_items_state_priority_created_at"), table_name="review_items")
    op.drop_table("review_items")
    op.drop_index(op.f("ix_outcomes_task_tenant"), table_name="outcomes")
    op.drop_table("outcomes")
    op.drop_index(op.f("ix_episodes_tenant_task_model"), table_name="episodes")
    op.drop_table("episodes")

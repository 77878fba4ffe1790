"""What the loop needs: retraction and order of outcomes, learned state, index checksums, kinds of turn."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("substance", sa.String(length=64), nullable=True))
    op.add_column("runs", sa.Column("parent_id", sa.String(length=64), nullable=True))
    op.create_index(
        op.f("ix_runs_tenant_conversation_id_substance"), "runs", ["tenant", "conversation_id", "substance"]
    )
    op.create_index(op.f("ix_runs_parent_id"), "runs", ["parent_id"])
    op.add_column("rounds", sa.Column("fused", sa.Float(), nullable=True))
    op.add_column("rounds", sa.Column("turn", sa.String(length=16), nullable=True))
    op.add_column("rounds", sa.Column("calibrator", sa.String(length=200), nullable=True))
    op.add_column("rounds", sa.Column("fingerprint", sa.Text(), nullable=True))
    op.create_index(
        op.f("ix_review_items_tenant_conversation_id_state"), "review_items", ["tenant", "conversation_id", "state"]
    )
    _outcomes()
    op.create_index(op.f("ix_episodes_response_id"), "episodes", ["response_id"])
    op.drop_index(op.f("ix_episodes_tenant_task_model"), table_name="episodes")
    op.create_index(
        op.f("ix_episodes_tenant_task_model_is_right_id"), "episodes", ["tenant", "task", "model", "is_right", "id"]
    )
    op.create_table(
        "learned",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("tenant", sa.String(length=200), nullable=False),
        sa.Column("task", sa.String(length=200), nullable=False),
        sa.Column("scope", sa.String(length=200), nullable=False),
        sa.Column("through", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("updated_at", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("name", "tenant", "task", "scope", name=op.f("pk_learned")),
    )
    op.create_table(
        "index_snapshots",
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("embedder", sa.Text(), nullable=False),
        sa.Column("width", sa.Integer(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("through", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_index_snapshots")),
    )


def _outcomes() -> None:
    """Those that are there already are numbered in the order of their grades."""
    op.create_table(
        "counters",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("value", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_counters")),
    )
    with op.batch_alter_table("outcomes") as table:
        table.add_column(sa.Column("change", sa.Integer(), nullable=False, server_default="0"))
        table.add_column(sa.Column("revision", sa.Integer(), nullable=False, server_default="0"))
        table.add_column(sa.Column("retracted_at", sa.String(length=32), nullable=True))
        table.add_column(sa.Column("retracted_because", sa.Text(), nullable=True))
    connection = op.get_bind()
    outcomes = sa.table("outcomes", sa.column("id"), sa.column("change"), sa.column("graded_at"))
    ids = connection.execute(sa.select(outcomes.c.id).order_by(outcomes.c.graded_at, outcomes.c.id)).scalars().all()
    for number, id in enumerate(ids, start=1):
        connection.execute(outcomes.update().where(outcomes.c.id == id).values(change=number))
    counters = sa.table("counters", sa.column("name"), sa.column("value"))
    connection.execute(counters.insert().values(name="outcomes", value=len(ids)))
    with op.batch_alter_table("outcomes") as table:
        for name in ("change", "revision"):
            table.alter_column(name, server_default=None, existing_type=sa.Integer(), existing_nullable=False)
    op.create_index(op.f("ix_outcomes_change"), "outcomes", ["change"])
    op.create_index(
        op.f("ix_outcomes_source_source_name_graded_at"), "outcomes", ["source", "source_name", "graded_at"]
    )

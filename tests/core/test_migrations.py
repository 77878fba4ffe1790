"""From schema to schema: nothing is lost, and a kill leaves the old one or the new one whole."""

import json
import multiprocessing
import os
import signal
from datetime import UTC, datetime, timedelta

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Engine, create_engine, event, inspect, text
from sqlalchemy.dialects.sqlite.base import SQLiteDialect

from demur.core.database import Database, migrate
from demur.core.database.outcome_log import OutcomeLog
from demur.core.database.tables import metadata, outcomes
from demur.core.outcome import Outcome, OutcomeSource

FORK = multiprocessing.get_context("fork")
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
OLD_COLUMNS = "id, response_id, task, tenant, is_right, source, source_name, label_propensity, outcome, graded_at"


def old_outcomes():
    """In another order than that of their grades; two of one moment; one without task, tenant and propensity."""
    minutes = [30, 10, 20, 10, 0]
    for number, late in enumerate(minutes):
        known = number != 4
        yield Outcome(
            id=f"out_{number}",
            response_id=f"resp_{number}",
            correct=number % 2 == 0,
            source=list(OutcomeSource)[number % 4],
            source_name="ada — ⟨x⟩",
            label_propensity=0.02 if known else None,
            corrected_answer="it's \u202e 100 %",
            graded_at=NOON + timedelta(minutes=late),
        )


def schema_0001(path):
    """A database as the first version left it, with outcomes in it."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", os.path.join(os.path.dirname(migrate.__file__), "migrations"))
        config.attributes.update(connection=connection, metadata=metadata)
        command.upgrade(config, "0001")
        for number, one in enumerate(old_outcomes()):
            row = {"id": one.id, "response_id": one.response_id, "is_right": one.is_right, "source": one.source.value}
            row |= {"task": "t" if number != 4 else None, "tenant": "d" if number != 4 else None}
            row |= {"source_name": one.source_name, "label_propensity": one.label_propensity}
            row |= {"outcome": one.model_dump_json(), "graded_at": one.graded_at.isoformat(timespec="microseconds")}
            names = ", ".join(row)
            values = ", ".join(f":{name}" for name in row)
            connection.execute(text(f"INSERT INTO outcomes ({names}) VALUES ({values})"), row)
        run = {"id": "run_1", "call_id": "c", "kind": "llm", "task": "t", "tenant": "d", "mode": "shadow"}
        run |= {"state": "done", "call": "{}", "owner": "o", "created_at": "x", "updated_at": "x"}
        run |= {"cost_money": 0.5, "cost_tokens_in": 1, "cost_tokens_out": 2, "cost_seconds": 3.0}
        names = ", ".join(run)
        connection.execute(text(f"INSERT INTO runs ({names}) VALUES ({', '.join(f':{each}' for each in run)})"), run)
    engine.dispose()
    return path


def content(path):
    """Revision, the outcomes' first columns, and the runs' costs, whatever the schema."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
        rows = connection.execute(text(f"SELECT {OLD_COLUMNS} FROM outcomes ORDER BY id")).all()
        cost = connection.execute(text("SELECT id, cost_money, cost_seconds FROM runs")).all()
        columns = {each["name"] for each in inspect(connection).get_columns("outcomes")}
        tables = set(inspect(connection).get_table_names())
    engine.dispose()
    return revision, [tuple(row) for row in rows], [tuple(row) for row in cost], columns, tables


def test_outcomes_are_numbered_in_the_order_of_their_grades_and_nothing_is_lost(tmp_path):
    path = schema_0001(tmp_path / "a.db")
    before = content(path)
    assert before[0] == "0001" and "change" not in before[3]
    log = OutcomeLog(Database(path))
    after = content(path)
    assert (after[0], after[1], after[2]) == (migrate.HEAD, before[1], before[2])
    assert [change.response_id for change in log.changed_since(0)] == ["resp_4", "resp_1", "resp_3", "resp_2", "resp_0"]
    assert log.last_change() == 5
    for one in old_outcomes():
        assert log.effective(one.response_id) == one
    with log.database.reading() as connection:
        rows = connection.execute(outcomes.select()).all()
    assert {(row.revision, row.retracted_at, row.retracted_because) for row in rows} == {(0, None, None)}
    log.record(Outcome(response_id="resp_9", correct=True, source=OutcomeSource.HUMAN))
    assert log.last_change() == 6
    assert log.retract("human") == 3
    assert log.counts().total == 3


def test_an_empty_old_database_and_one_that_is_opened_again(tmp_path):
    path = schema_0001(tmp_path / "a.db")
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM outcomes"))
    engine.dispose()
    log = OutcomeLog(Database(path))
    assert (log.last_change(), log.changed_since(0)) == (0, [])
    log.record(Outcome(response_id="r", correct=True, source=OutcomeSource.HUMAN))
    assert OutcomeLog(Database(path)).last_change() == 1


def schema_of(path):
    database = Database(path)
    with database.reading() as connection:
        return {
            name: (
                {each["name"]: (str(each["type"]), each["nullable"]) for each in inspect(connection).get_columns(name)},
                sorted((each["name"], tuple(each["column_names"])) for each in inspect(connection).get_indexes(name)),
                sorted(tuple(each["column_names"]) for each in inspect(connection).get_unique_constraints(name)),
            )
            for name in inspect(connection).get_table_names()
        }


def test_an_upgraded_database_has_the_schema_of_a_new_one(tmp_path):
    assert schema_of(schema_0001(tmp_path / "old.db")) == schema_of(tmp_path / "new.db")
    with Database(tmp_path / "old.db").reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def statements_of_an_upgrade(path):
    counted = []

    def count(*_):
        counted.append(1)

    event.listen(Engine, "before_cursor_execute", count)
    try:
        Database(path).close()
    finally:
        event.remove(Engine, "before_cursor_execute", count)
    return len(counted)


def upgrade_and_die(path, at):
    """Kill this process before its statement number `at`, or "before" or "after" the upgrade's commit."""
    seen = []

    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    def execute(_, cursor, statement, *more):
        seen.append(statement)
        if len(seen) == at:
            die()

    commit = SQLiteDialect.do_commit

    def committing(dialect, connection):
        wrote = any(statement.lstrip().startswith("CREATE") for statement in seen)
        if wrote and at == "before":
            die()
        commit(dialect, connection)
        if wrote and at == "after":
            die()

    event.listen(Engine, "before_cursor_execute", execute)
    SQLiteDialect.do_commit = committing
    Database(path)


def test_a_kill_leaves_the_old_schema_or_the_new_one_whole_and_the_next_opening_goes_through(tmp_path):
    old = content(schema_0001(tmp_path / "whole.db"))
    count = statements_of_an_upgrade(schema_0001(tmp_path / "count.db"))
    assert count > 40
    for at in (*range(2, count, count // 12), "before", "after"):
        path = schema_0001(tmp_path / f"{at}.db")
        child = FORK.Process(target=upgrade_and_die, args=(path, at))
        child.start()
        child.join()
        assert child.exitcode == -signal.SIGKILL, at
        left = content(path)
        assert left[0] == migrate.HEAD if at == "after" else left == old, f"killed at {at}"
        log = OutcomeLog(Database(path))
        assert content(path)[:3] == (migrate.HEAD, *old[1:3])
        assert [change.number for change in log.changed_since(0)] == [1, 2, 3, 4, 5]
        log.database.close()


def open_and_report(path, answers):
    answers.put(OutcomeLog(Database(path)).last_change())


def test_several_processes_open_an_old_database_at_once(tmp_path):
    path = schema_0001(tmp_path / "a.db")
    answers = FORK.Queue()
    children = [FORK.Process(target=open_and_report, args=(path, answers)) for _ in range(4)]
    for child in children:
        child.start()
    assert [answers.get(timeout=60) for _ in children] == [5] * 4
    for child in children:
        child.join()
    assert json.loads(OutcomeLog(Database(path)).effective("resp_0").model_dump_json())["id"] == "out_0"

"""Opening databases: fresh, again, newer, damaged, read-only, full; and what a transaction promises."""

import multiprocessing
import os
import sqlite3
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta, timezone

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import event, insert, inspect, select, text

from demur.core.database import Database, metadata
from demur.core.database.migrate import HEAD, current_revision
from demur.core.database.tables import UtcTime, outcomes
from demur.core.errors import BadInput, ConfigurationError, StoreError


def outcome_row(number, **changes):
    row = {
        "id": f"out_{number}",
        "response_id": f"resp_{number}",
        "is_right": True,
        "source": "human",
        "source_name": "ada",
        "outcome": "{}",
        "graded_at": datetime(2026, 1, 1, tzinfo=UTC),
        "change": number,
        "revision": 0,
    }
    return row | changes


def count(database):
    with database.reading() as connection:
        return len(connection.execute(select(outcomes.c.id)).all())


def test_a_fresh_database_has_the_newest_schema_and_is_the_same_when_reopened(tmp_path):
    path = tmp_path / "folder that is not there" / "odd name?%20&.db"
    first = Database(path)
    with first.transaction() as connection:
        connection.execute(insert(outcomes).values(outcome_row(1)))
    first.close()
    again = Database(path)
    assert path.exists()
    assert count(again) == 1
    with again.reading() as connection:
        assert current_revision(connection) == HEAD
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(text("PRAGMA foreign_keys")).scalar() == 1
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2


def test_migrations_make_exactly_the_tables_of_the_metadata(tmp_path):
    database = Database(tmp_path / "a.db")
    with database.transaction() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, metadata) == []


def test_keys_and_indexes_are_those_of_the_metadata(tmp_path):
    """Alembic's comparison does not look at primary keys, nor at the order of columns."""

    def schema(database):
        with database.reading() as connection:
            seen = inspect(connection)
            return {
                table: (
                    [column["name"] for column in seen.get_columns(table)],
                    seen.get_pk_constraint(table),
                    sorted(map(str, seen.get_foreign_keys(table))),
                    sorted(map(str, seen.get_unique_constraints(table))),
                    sorted(map(str, seen.get_indexes(table))),
                )
                for table in metadata.tables
            }

    migrated, made = Database(tmp_path / "migrated.db"), Database(tmp_path / "made.db")
    with made.transaction() as connection:
        metadata.drop_all(connection)
        metadata.create_all(connection)
    assert schema(migrated) == schema(made)


def test_a_newer_schema_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "a.db"
    database = Database(path)
    with database.transaction() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    database.close()
    with pytest.raises(StoreError, match=r"'9999'.*upgrade Demur"):
        Database(path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("9999",)]


def test_a_migration_that_fails_leaves_an_empty_database(tmp_path):
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE runs (not_ours TEXT)")
    with pytest.raises(StoreError, match="runs"):
        Database(path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("runs",)]


def test_a_garbage_file_is_a_store_error(tmp_path):
    path = tmp_path / "a.db"
    path.write_bytes(b"this is not a database, by any means" * 500)
    with pytest.raises(StoreError, match="not a database"):
        Database(path)


def test_a_damaged_page_is_a_store_error(tmp_path):
    path = tmp_path / "a.db"
    database = Database(path)
    with database.transaction() as connection:
        for number in range(300):
            connection.execute(insert(outcomes).values(outcome_row(number, outcome="x" * 500)))
    with database.engine.connect() as connection:
        connection.exec_driver_sql("ROLLBACK")
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(os.urandom(size // 2 - 4096))
    damaged = Database(path)
    with pytest.raises(StoreError), damaged.reading() as connection:
        connection.execute(select(outcomes)).all()


def test_a_folder_is_no_database_and_a_file_is_no_folder(tmp_path):
    with pytest.raises(StoreError):
        Database(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="folder of database"):
        Database(tmp_path / "file" / "a.db")


@pytest.mark.parametrize("url", ["nonsense://x", "sqlite+nonsense:///x", "://"])
def test_an_url_that_means_nothing_is_a_configuration_error(url):
    with pytest.raises(ConfigurationError):
        Database(url)


def test_a_read_only_file_can_be_read_and_refuses_writes(tmp_path):
    path = tmp_path / "a.db"
    kept = Database(path)
    with kept.transaction() as connection:
        connection.execute(insert(outcomes).values(outcome_row(1)))
    read_only = Database(f"sqlite:///file:{path}?mode=ro&uri=true")
    assert count(read_only) == 1
    with pytest.raises(StoreError, match="readonly"), read_only.transaction() as connection:
        connection.execute(insert(outcomes).values(outcome_row(2)))
    assert count(kept) == 1


def test_a_full_disk_is_a_store_error_and_nothing_of_the_transaction_stays(tmp_path):
    database = Database(tmp_path / "a.db")

    @event.listens_for(database.engine, "connect")
    def _(connection, _record):
        connection.execute("PRAGMA max_page_count=60")

    database.engine.dispose()
    rows = [outcome_row(number, outcome="x" * 2000) for number in range(1000)]
    with pytest.raises(StoreError, match="full"), database.transaction() as connection:
        _ = [connection.execute(insert(outcomes).values(row)) for row in rows]
    assert count(database) == 0
    with database.transaction() as connection:
        connection.execute(insert(outcomes).values(outcome_row(1)))
    assert count(database) == 1


FILE_LIMIT = """
import resource, signal, sys
from sqlalchemy import text
from demur.core.database import Database
from demur.core.errors import StoreError
database = Database(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
try:
    with database.transaction() as connection:
        connection.execute(text("CREATE TABLE big (x TEXT)"))
        for _ in range(1000):
            connection.execute(text("INSERT INTO big VALUES (:x)"), {"x": "y" * 5000})
except StoreError as error:
    print("store error")
with database.reading() as connection:
    print(connection.execute(text("SELECT count(*) FROM sqlite_master WHERE name = 'big'")).scalar())
"""


def test_a_file_that_may_not_grow_is_a_store_error_too(tmp_path):
    pytest.importorskip("resource")
    done = subprocess.run(
        [sys.executable, "-c", FILE_LIMIT, str(tmp_path / "a.db")], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:2] == ["store error", "0"]


def open_and_write(path, number, barrier, answers):
    barrier.wait()
    try:
        database = Database(path)
        with database.transaction() as connection:
            connection.execute(insert(outcomes).values(outcome_row(number)))
        answers.put("ok")
    except Exception as error:
        answers.put(repr(error))


@pytest.mark.parametrize("attempt", range(3))
def test_processes_that_open_the_same_empty_file_at_once_all_succeed(tmp_path, attempt):
    context = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(4), context.Queue()
    children = [
        context.Process(target=open_and_write, args=(tmp_path / "a.db", number, barrier, answers))
        for number in range(4)
    ]
    for child in children:
        child.start()
    said = [answers.get(timeout=60) for _ in children]
    for child in children:
        child.join()
    assert said == ["ok"] * 4
    assert count(Database(tmp_path / "a.db")) == 4


def test_threads_can_open_different_databases_at_once(tmp_path):
    failed = []

    def work(number):
        try:
            Database(tmp_path / f"{number}.db")
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


@pytest.mark.parametrize("where", ["file", "memory"])
def test_threads_write_one_database_without_losing_anything(tmp_path, where):
    database = Database(":memory:" if where == "memory" else tmp_path / "a.db")
    failed = []

    def work(thread):
        try:
            for number in range(10):
                with database.transaction() as connection:
                    connection.execute(insert(outcomes).values(outcome_row(f"{thread}_{number}")))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert count(database) == 80


def test_a_forked_child_has_connections_of_its_own(tmp_path):
    database = Database(tmp_path / "a.db")
    assert count(database) == 0
    context = multiprocessing.get_context("fork")
    answers = context.Queue()

    def work():
        answers.put(database.engine.pool.checkedin())
        with database.transaction() as connection:
            connection.execute(insert(outcomes).values(outcome_row(1)))

    child = context.Process(target=work)
    child.start()
    assert answers.get(timeout=60) == 0
    child.join()
    assert child.exitcode == 0
    assert count(database) == 1


def test_a_reader_neither_waits_for_a_writer_nor_sees_half_of_it(tmp_path):
    database = Database(tmp_path / "a.db", busy_timeout=0.05)
    with database.transaction() as connection:
        connection.execute(insert(outcomes).values(outcome_row(1)))
        assert count(database) == 0
    assert count(database) == 1


def test_a_second_writer_that_waited_too_long_gets_a_store_error(tmp_path):
    database = Database(tmp_path / "a.db", busy_timeout=0.05)
    with database.transaction(), pytest.raises(StoreError, match="locked"), database.transaction():
        pass


def test_a_joined_transaction_is_undone_with_the_outer_one(tmp_path):
    database = Database(tmp_path / "a.db")

    def write_and_fail():
        with database.transaction() as outer:
            with database.transaction(outer) as inner:
                assert inner is outer
                inner.execute(insert(outcomes).values(outcome_row(1)))
            raise KeyError

    with pytest.raises(KeyError):
        write_and_fail()
    assert count(database) == 0


def test_errors_do_not_show_the_values_of_a_statement(tmp_path):
    database = Database(tmp_path / "a.db")
    row = outcome_row(1, outcome="the patient's name")
    with database.transaction() as connection:
        connection.execute(insert(outcomes).values(row))
    with pytest.raises(StoreError) as caught, database.transaction() as connection:
        connection.execute(insert(outcomes).values(row))
    assert "UNIQUE" in str(caught.value)
    assert "patient" not in f"{caught.value} {caught.value.__cause__}"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"graded_at": datetime(2026, 1, 1)}, "naive"),
        ({"outcome": "\ud800"}, "surrogates"),
    ],
)
def test_values_that_no_database_holds_are_bad_input(tmp_path, value, said):
    database = Database(tmp_path / "a.db")
    with pytest.raises(BadInput, match=said), database.transaction() as connection:
        connection.execute(insert(outcomes).values(outcome_row(1, **value)))
    assert count(database) == 0


@given(
    moments=st.lists(
        st.datetimes(
            min_value=datetime(1000, 1, 3),
            max_value=datetime(9999, 12, 30),
            timezones=st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes))),
        ),
        min_size=2,
        max_size=2,
    )
)
def test_times_sort_as_text_and_come_back_equal(moments):
    kind = UtcTime()
    first, second = (kind.process_bind_param(moment, None) for moment in moments)
    assert (first < second) == (moments[0] < moments[1])
    assert len(first) == 32
    assert kind.process_result_value(first, None) == moments[0]

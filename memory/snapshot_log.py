"""What SQL says of index snapshots: a file opens only if its SHA-256 is the one written here (rule 4)."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import delete, select

from ..core.database import Database
from ..core.database.tables import index_snapshots
from ..core.errors import SnapshotMismatch
from ..core.protocols import Clock
from ..core.record import Record

KIND = "episodes"


class Snapshot(Record):
    """One snapshot file.

    Attributes:
        name: of the file, in whatever folder its process keeps it.
        embedder, width: what made the vectors.
        count: vectors in it.
        through: the highest episode number when it was written.
    """

    name: str
    sha256: str
    embedder: str
    width: int
    count: int
    through: int


class SnapshotLog:
    """The snapshots of the episode index. Several processes, each with a folder of its own, share it."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.database = database
        self.clock = clock

    def add(self, snapshot: Snapshot, folder: Path) -> None:
        """Write down a snapshot whose file is in place, and clear away the older ones of this folder.

        Raises:
            StoreError: nothing was written; the older snapshots are untouched.
        """
        here = self._here(folder)
        with self.database.transaction() as connection:
            row = snapshot.model_dump() | {"kind": KIND, "created_at": self.clock.now()}
            connection.execute(index_snapshots.insert().values(row))
            connection.execute(delete(index_snapshots).where(index_snapshots.c.name.in_(here - {snapshot.name})))
        for name in here - {snapshot.name}:
            (folder / name).unlink(missing_ok=True)

    def newest(self, folder: Path) -> Snapshot:
        """The newest snapshot whose file is in the folder.

        Raises:
            SnapshotMismatch: there is none that SQL knows.
        """
        here = self._here(folder)
        with self.database.reading() as connection:
            rows = connection.execute(
                select(index_snapshots)
                .where(index_snapshots.c.name.in_(here), index_snapshots.c.kind == KIND)
                .order_by(index_snapshots.c.created_at.desc(), index_snapshots.c.name)
            ).all()
        if not rows:
            known = f"; SQL knows none of {sorted(here)}" if here else ""
            raise SnapshotMismatch(f"there is no snapshot in {str(folder)!r} yet{known}")
        return Snapshot(**{name: getattr(rows[0], name) for name in Snapshot.model_fields})

    @staticmethod
    def _here(folder: Path) -> set[str]:
        return {path.name for path in folder.glob("episodes-*.faiss")}

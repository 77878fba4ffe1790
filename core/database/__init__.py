"""The database: SQL is the truth (rule 6). Tables, engine, migrations."""

from .engine import Database
from .tables import metadata

__all__ = ["Database", "metadata"]

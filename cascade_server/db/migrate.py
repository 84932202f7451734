"""Numbered migrations: `migrations/NNNN_name.sql`, never edited once released.

The number of the last one applied is SQLite's `user_version`.
"""

from __future__ import annotations

import re
import sqlite3
from importlib.resources import files

from cascade_server.errors import StartError


def migrations() -> list[tuple[int, str]]:
    """Every migration as (number, SQL), in order."""
    found = []
    for entry in (files(__package__) / "migrations").iterdir():
        if match := re.fullmatch(r"(\d{4})_\w+\.sql", entry.name):
            found.append((int(match[1]), entry.read_text(encoding="utf-8")))
    return sorted(found)


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a database up to date, each step in a transaction of its own.

    Raises StartError when the database was written by a newer Cascade.
    """
    steps = migrations()
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    newest = steps[-1][0]
    if version > newest:
        raise StartError(
            f"The database has schema {version}, but this Cascade knows only up to {newest}: it was written by a newer "
            "version. Update Cascade, or point CASCADE_DATA_DIR to another folder."
        )
    for number, sql in steps:
        if number > version:
            # executescript commits whatever is open first, so the transaction is part of the script.
            connection.executescript(f"BEGIN IMMEDIATE;\n{sql}\nPRAGMA user_version = {number};\nCOMMIT;")

# SPDX-License-Identifier: Apache-2.0
"""Things that were seen, and where: an SQLite database that sightings are merged into.

Whether a thing is still where it was is a Bayes filter with two states. A look at its place that
has an outcome o changes the odds of its presence by P(o | present) / P(o | absent).

Which thing a sighting is of, and what it is called, is decided in `sightings`.
"""

import json
import math
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

from newfound_core.errors import DamagedError, LockedError, StorageError
from newfound_core.knowledge.labels import same_label
from newfound_core.sightings import (
    CERTAIN,
    FIRST_PRESENCE,
    GATE,
    MIN_ERROR,
    MIN_GATE,
    NOT_DETECTED,
    SEEN_THROUGH,
    RememberedObject,
    Sighting,
    Vector,
    assign,
    merged,
    presence_after,
    vote,
)

_VERSION = 3
_MOST_SPELLINGS = 100
_DECIDED = 0.5  # s between two looks that count: frames in a row see the same
_COLUMNS = """
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    label TEXT NOT NULL COLLATE NOCASE, unknown_id TEXT NOT NULL, frame TEXT NOT NULL,
    x REAL NOT NULL, y REAL NOT NULL, z REAL NOT NULL,
    qx REAL NOT NULL, qy REAL NOT NULL, qz REAL NOT NULL, qw REAL NOT NULL,
    length REAL NOT NULL, width REAL NOT NULL, height REAL NOT NULL,
    error REAL NOT NULL, presence REAL NOT NULL, sightings INTEGER NOT NULL,
    first_seen INTEGER NOT NULL, last_seen INTEGER NOT NULL, looked INTEGER NOT NULL,
    camera TEXT NOT NULL, view_quality REAL NOT NULL, view BLOB NOT NULL,
    votes TEXT NOT NULL DEFAULT '{}'
"""
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS objects ({_COLUMNS});
CREATE INDEX IF NOT EXISTS by_label ON objects (label);
CREATE INDEX IF NOT EXISTS by_unknown ON objects (unknown_id) WHERE unknown_id != '';
CREATE INDEX IF NOT EXISTS by_place ON objects (frame, x);
CREATE INDEX IF NOT EXISTS by_presence ON objects (presence, last_seen);
CREATE INDEX IF NOT EXISTS by_time ON objects (last_seen);
"""
_FIELDS = tuple(field.name for field in fields(RememberedObject))
_SELECT = f"SELECT {', '.join(_FIELDS)} FROM objects"


class ObjectMemory:
    """The database; every change is one transaction, durable when the call returns.

    After a kill everything is there. After a power failure the last moments may be missing, but
    nothing is damaged (SQLite's write-ahead log).
    """

    def __init__(self, path: Path, max_objects: int = 10000) -> None:
        self.path, self.max_objects = path, max_objects
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(
                path, timeout=0.5, check_same_thread=False, isolation_level=None
            )
            self._prepare()
        except OSError as error:
            raise StorageError(f"{path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise _named(error, path) from error

    def _prepare(self) -> None:
        database = self._database
        database.execute("PRAGMA locking_mode=EXCLUSIVE")  # one owner: no sighting counts twice
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version > _VERSION:
            raise DamagedError(
                f"{self.path} is of format {version}, this program knows {_VERSION}: update it, "
                "or choose another file"
            )
        database.execute("BEGIN EXCLUSIVE")
        if version < _VERSION:  # else nothing is written: what is there is served on a full disk
            for statement in _SCHEMA.split(";"):
                database.execute(statement)
            if version == 1:
                database.execute("ALTER TABLE objects ADD COLUMN votes TEXT NOT NULL DEFAULT '{}'")
            database.execute(f"PRAGMA user_version={_VERSION}")
        database.execute("COMMIT")

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            self._database.close()

    # Changes.

    def see(self, sightings: Sequence[Sighting]) -> list[int]:
        """Merge the sightings of one frame; the ids of their objects."""
        with self._changing() as database:
            known, pieces = assign(sightings, [_near(database, each) for each in sightings])
            found: list[int] = []
            for number, sighting in enumerate(sightings):
                if number in pieces:
                    found.append(pieces[number].id)
                    continue
                taken = [each.id for each in known.values()]
                thing = known.get(number) or _by_id(database, sighting, [*taken, *found])
                if thing is None:
                    found.append(_insert(database, sighting))
                else:
                    _update(database, merged(thing, sighting))
                    found.append(thing.id)
            self._bound(database, found)
            return found

    def look(self, seen_through: Iterable[int], not_detected: Iterable[int], stamp: int) -> None:
        """Negative evidence: places that were in view, and the thing was not there."""
        looks = [(SEEN_THROUGH, each) for each in seen_through]
        looks += [(NOT_DETECTED, each) for each in not_detected]
        if not looks:
            return
        with self._changing() as database:
            for odds, number in looks:
                for each in _rows(database, "WHERE id = ?", (number,)):
                    if abs(stamp - each.looked) >= _DECIDED * 1e9:
                        database.execute(
                            "UPDATE objects SET presence = ?, looked = ? WHERE id = ?",
                            (presence_after(each.presence, odds), stamp, number),
                        )

    def set_view(self, number: int, quality: float, jpeg: bytes) -> None:
        """Keep a view of a thing."""
        with self._changing() as database:
            database.execute(
                "UPDATE objects SET view = ?, view_quality = ? WHERE id = ?",
                (jpeg, quality, number),
            )

    def rename(self, unknown_id: str, label: str) -> int:
        """A class was learned from an unknown object: how many things have its label now."""
        with self._changing() as database:
            return database.execute(
                "UPDATE objects SET label = ?, votes = ? WHERE unknown_id = ?",
                (label, json.dumps({label: CERTAIN}), unknown_id),
            ).rowcount

    def merge_unknown(self, unknown_id: str, into: str) -> None:
        """Two unknown objects turned out to be one; the thing seen last says where it is."""
        with self._changing() as database:
            database.execute(
                "UPDATE objects SET unknown_id = ? WHERE unknown_id = ?", (into, unknown_id)
            )
            same = sorted(
                _rows(database, "WHERE unknown_id = ?", (into,)), key=lambda each: -each.last_seen
            )
            for older in same[1:]:
                if older.frame == same[0].frame:
                    database.execute(
                        "UPDATE objects SET sightings = sightings + ?, "
                        "first_seen = min(first_seen, ?) WHERE id = ?",
                        (older.sightings, older.first_seen, same[0].id),
                    )
                    database.execute("DELETE FROM objects WHERE id = ?", (older.id,))

    def forget(self, number: int) -> bool:
        """Remove a thing; whether there was one."""
        with self._changing() as database:
            return database.execute("DELETE FROM objects WHERE id = ?", (number,)).rowcount > 0

    def _bound(self, database: sqlite3.Connection, keep: Collection[int]) -> None:
        """Remove the least probable and oldest things beyond the limit."""
        (count,) = database.execute("SELECT count(*) FROM objects").fetchone()
        if count > self.max_objects:
            marks = ", ".join("?" * len(keep))
            database.execute(
                "DELETE FROM objects WHERE id IN "
                f"(SELECT id FROM objects WHERE id NOT IN ({marks}) "
                "ORDER BY presence, last_seen LIMIT ?)",
                (*keep, count - self.max_objects),
            )

    # Queries.

    def find(self, label: str, min_presence: float, limit: int) -> list[RememberedObject]:
        """Things of a label, in any case; most probably present first."""
        labels = [label] if label.isascii() else self._spellings(label)
        return self._query(
            f"WHERE label IN ({', '.join('?' * len(labels))}) AND presence >= ? "
            "ORDER BY presence DESC, last_seen DESC LIMIT ?",
            (*labels, min_presence, limit),
        )

    def _spellings(self, label: str) -> list[str]:
        """How a label is spelled here: SQLite knows upper and lower case of ASCII only."""
        with self._reading() as database:
            found = database.execute("SELECT DISTINCT label FROM objects").fetchall()
        return [known for (known,) in found if same_label(known, label)][:_MOST_SPELLINGS]

    def near(
        self, frame: str, centre: Vector, radius: float, min_presence: float, limit: int
    ) -> list[RememberedObject]:
        """Things within a radius, nearest first."""
        x, y, z = centre
        place = (x, x, y, y, z, z)
        return self._query(
            "WHERE frame = ? AND x BETWEEN ? AND ? AND presence >= ? AND "
            "(x-?)*(x-?) + (y-?)*(y-?) + (z-?)*(z-?) <= ? "
            "ORDER BY (x-?)*(x-?) + (y-?)*(y-?) + (z-?)*(z-?) LIMIT ?",
            (frame, x - radius, x + radius, min_presence, *place, radius * radius, *place, limit),
        )

    def latest(self, frame: str, min_presence: float, limit: int) -> list[RememberedObject]:
        """Things of a frame, or of all if it is empty; last seen first."""
        return self._query(
            "WHERE (? = '' OR frame = ?) AND presence >= ? ORDER BY last_seen DESC LIMIT ?",
            (frame, frame, min_presence, limit),
        )

    def get(self, number: int) -> RememberedObject | None:
        """A thing by its id."""
        return next(iter(self._query("WHERE id = ?", (number,))), None)

    def view(self, number: int) -> bytes:
        """The best view of a thing, JPEG; empty if there is none."""
        with self._reading() as database:
            found = database.execute("SELECT view FROM objects WHERE id = ?", (number,)).fetchone()
        return found[0] if found else b""

    def count(self) -> int:
        """How many things there are."""
        with self._reading() as database:
            return int(database.execute("SELECT count(*) FROM objects").fetchone()[0])

    def _query(self, rest: str, values: tuple) -> list[RememberedObject]:
        with self._reading() as database:
            return _rows(database, rest, values)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._database
            except sqlite3.Error as error:
                raise _named(error, self.path) from error

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it, or nothing."""
        with self._reading() as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
                database.execute("COMMIT")
            except BaseException:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise


def _rows(database: sqlite3.Connection, rest: str, values: tuple) -> list[RememberedObject]:
    return [RememberedObject(*row) for row in database.execute(f"{_SELECT} {rest}", values)]


def _near(database: sqlite3.Connection, sighting: Sighting) -> list[RememberedObject]:
    """What may be the same; neither its error nor its size is known yet."""
    reach = max(MIN_GATE, GATE * math.hypot(sighting.error, 0.1), math.hypot(*sighting.size))
    x, y, z = sighting.position
    return _rows(
        database,
        "WHERE frame = ? AND x BETWEEN ? AND ? AND y BETWEEN ? AND ? AND z BETWEEN ? AND ?",
        (sighting.frame, x - reach, x + reach, y - reach, y + reach, z - reach, z + reach),
    )


def _by_id(
    database: sqlite3.Connection, sighting: Sighting, taken: Collection[int]
) -> RememberedObject | None:
    """The detector knows an unknown object by its looks, wherever it is."""
    if not sighting.unknown_id:
        return None
    same = _rows(
        database, "WHERE unknown_id = ? AND frame = ?", (sighting.unknown_id, sighting.frame)
    )
    free = [each for each in same if each.id not in taken]
    return min(free, key=lambda each: math.dist(each.position, sighting.position), default=None)


def _insert(database: sqlite3.Connection, sighting: Sighting) -> int:
    names = (*_FIELDS[1:], "view")
    values = (
        sighting.label, sighting.unknown_id, sighting.frame, *sighting.position,
        *sighting.orientation, *sighting.size, max(MIN_ERROR, sighting.error), FIRST_PRESENCE, 1,
        sighting.stamp, sighting.stamp, 0, sighting.camera, 0.0, vote("{}", sighting.label)[1],
        b"",
    )  # fmt: skip
    marks = ", ".join("?" * len(names))
    made = database.execute(f"INSERT INTO objects ({', '.join(names)}) VALUES ({marks})", values)
    assert made.lastrowid is not None
    return made.lastrowid


def _update(database: sqlite3.Connection, thing: RememberedObject) -> None:
    names = ", ".join(f"{name} = ?" for name in _FIELDS[1:])
    values = [getattr(thing, name) for name in _FIELDS[1:]]
    database.execute(f"UPDATE objects SET {names} WHERE id = ?", (*values, thing.id))


def _named(error: sqlite3.Error, path: Path) -> Exception:
    """The error of newfound for one of SQLite."""
    text = str(error)
    if "locked" in text:
        return LockedError(f"{path} is in use by another process")
    if "not a database" in text or "malformed" in text:
        return DamagedError(f"{path} is damaged ({text}): move it away to begin anew")
    if "full" in text:
        return StorageError(
            f"{path}: no room on the disk. What is remembered stays, what is seen now is not kept"
        )
    return StorageError(f"{path}: {text}")

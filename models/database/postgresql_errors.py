"""
What the errors of PostgreSQL mean, read from their SQLSTATE: no driver is needed.

SQLite's have none, so that all questions here are answered with no.
"""

from __future__ import annotations

import re

import sqlalchemy as sa

from models.errors import DeadlockError, LockedError, RefusedError, UnreachableError

#: SQLSTATEs of what we left in a session and is not there, or of what another left: a
#: statement that was prepared, a cursor. It is the session of another client.
_FORGOTTEN = ("26000", "34000", "42P05")

#: Beginnings of the SQLSTATEs of a server that cannot serve now but whose errors the
#: driver does not class as operational: read-only (a failover), a transaction that took
#: too long, a snapshot that is too old, an internal error; and what a session forgot.
_AILING = ("25006", "25P03", "25P04", "72", "XX", *_FORGOTTEN)

#: Beginning of the SQLSTATEs of a statement that exceeds the limits of PostgreSQL, such
#: as too many columns, or a text too long for an index. The driver classes them as
#: operational, but the statement would fail again on any server.
_BEYOND_LIMITS = "54"


def is_ailing(error: BaseException | None) -> bool:
    """Tell whether *error* says that the server cannot serve now."""
    return _get_state(error).startswith(_AILING)


#: SQLSTATEs of a right that the role lacks, and of a schema that it may not use. The
#: driver classes them as mistakes in the statement, but the statement is ours, and a
#: GRANT puts it right.
_REFUSED = ("42501", "3F000")


def is_refused(error: BaseException | None) -> bool:
    """Tell whether *error* says that the role lacks a right."""
    return _get_state(error) in _REFUSED


#: Beginning of the SQLSTATEs of values that do not fit; their messages quote the value.
_BAD_VALUE = "22"


def hide_data(error: BaseException | None) -> None:
    """
    Remove the statement and its values from *error*.

    They are tenants' data, which belong neither in logs nor in the row of an operation.
    What remains says what went wrong; the traceback says where.
    """
    # All errors of psycopg have a SQLSTATE, if only None.
    is_drivers = hasattr(error, "sqlstate")
    if error is None or not (is_drivers or isinstance(error, sa.exc.StatementError)):
        return
    # Further lines are such as "DETAIL: Failing row contains (...)".
    said = str(error.args[0] if error.args else "").strip().partition("\n")[0]
    cause: BaseException = error
    if isinstance(error, sa.exc.StatementError):
        cause = error.orig or error
        error.statement = error.params = None
    if _get_state(cause).startswith(_BAD_VALUE):
        said = re.sub('".*"', '"..."', said)
    error.args = (said,)


def is_beyond_limits(error: BaseException | None) -> bool:
    """Tell whether the statement, and not the server, is to blame for *error*."""
    return _get_state(error).startswith(_BEYOND_LIMITS)


def _get_state(error: BaseException | None) -> str:
    return getattr(error, "sqlstate", None) or ""


#: SQLSTATE of a write to a server that takes none: a replica, or one that was set so.
_READ_ONLY = "25006"


#: SQLSTATE of a file that cannot grow: the disk of the server is full, or its quota is.
#: Whoever cannot even connect for that gets the words alone.
_DISK_FULL, _NO_SPACE = "53100", "No space left on device"


#: What SQLite says if its file cannot grow, and if another one writes for too long.
_FULL_FILE, _LOCKED_FILE = "database or disk is full", "database is locked"

#: SQLSTATE of a lock that was waited for in vain.
_LOCKED = "55P03"

#: SQLSTATE of a transaction that was taken back, since it and another one waited for
#: each other.
_DEADLOCK = "40P01"


def make_unreachable(error: BaseException) -> UnreachableError:
    """Return the error to raise for a database that cannot serve now."""
    cause = getattr(error, "orig", None) or error
    said = str(cause).strip() or type(cause).__name__
    if is_refused(cause):
        return RefusedError(said)
    if _get_state(cause) == _READ_ONLY:
        return UnreachableError(
            f"the database is read-only: {said}. It is a replica, or"
            " default_transaction_read_only is on; the doctor says which"
            " (minutehand doctor)"
        )
    if _get_state(cause) == _DISK_FULL or _NO_SPACE in said:
        first = said.partition("\n")[0]
        return UnreachableError(
            f"the disk of the database is full: {first}. Free some space there, or give"
            " it a larger disk"
        )
    if said == _FULL_FILE:
        return UnreachableError(
            "the disk of the database is full. Free some space at MINUTEHAND_HOME (or"
            " the path in MINUTEHAND_DATABASE_URL), or set it to another folder"
        )
    if _get_state(cause) == _LOCKED:
        said += (
            ". Another session holds that lock; the doctor names it (minutehand doctor)"
        )
    if said == _LOCKED_FILE:
        said += (
            ". Another program has been writing to it all the time, or left a"
            " transaction open: a shell, a copy that is made. Let it end, or end it"
        )
    if _get_state(cause) in _FORGOTTEN:
        said += (
            ". A pooler that does not show itself seems to stand between: let it pool"
            " by session, or set MINUTEHAND_DATABASE_URL to the database's own address"
        )
    kinds = {_DEADLOCK: DeadlockError, _LOCKED: LockedError}
    kind = kinds.get(_get_state(cause), UnreachableError)
    return kind(f"the database did not answer: {said}")

"""
An occurrence and its identity. Pure.

The id of an operation is derived from its cause, so that the same occurrence has the
same id whoever computes it, and the database can refuse a second one.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from uuid import UUID

#: How old an occurrence may be at a tick and still run, unless the settings say
#: otherwise, so that nothing is missed if no scheduler led for less than that. For the
#: source of the five minutes, see docs/origin.md.
LOOKBACK = timedelta(minutes=5)

#: How old it may be while somebody leads, who comes to it late all the same. The end of
#: a pause of 300,000 actions takes seven minutes; what is beyond an hour is no longer
#: wanted, and operations must not be pruned while their occurrences count as due.
LONGEST_LOOKBACK = timedelta(hours=1)

#: Namespace of every id derived here (UUIDv5, RFC 9562). Never change it:
#: a new namespace would run every occurrence of the current window again.
NAMESPACE = UUID("6b0d4f2e-3a51-5c7e-9d8a-4f1f0c9b7e21")

_NAMESPACE_BYTES = NAMESPACE.bytes


def str_to_uuid(text: str) -> UUID:
    """
    Return the UUIDv5 of *text* in our namespace; deterministic, the same everywhere.

    >>> str_to_uuid("weekly | 2026-11-23 06:00:00+00:00")
    UUID('3771f246-cc92-5326-b56a-8665f62de245')
    """
    return UUID(write_uuid(text))


def write_uuid(text: str) -> str:
    """
    Return ``str_to_uuid`` of *text* as text.

    >>> write_uuid("weekly | 2026-11-23 06:00:00+00:00")
    '3771f246-cc92-5326-b56a-8665f62de245'
    """
    # uuid.uuid5 and its text take four times as long, for each operation.
    digest = hashlib.sha1(_NAMESPACE_BYTES + text.encode(), usedforsecurity=False)
    d = digest.hexdigest()
    variant = "89ab"[int(d[16], 16) % 4]
    return f"{d[:8]}-{d[8:12]}-5{d[13:16]}-{variant}{d[17:20]}-{d[20:32]}"


def format_occurrence(occurrence: datetime) -> str:
    """
    Return the canonical text of an occurrence, ``2026-11-23 06:00:00+00:00``.

    Args:
        occurrence: Aware, any zone; cut to the second.

    Raises:
        ValueError: If *occurrence* has no UTC offset.
    """
    if occurrence.utcoffset() is None:
        raise ValueError(f"occurrence has no UTC offset: {occurrence!r}")

    return _format_utc(occurrence.astimezone(UTC))


@lru_cache(maxsize=1024)
def _format_utc(occurrence: datetime) -> str:
    """Format an instant; cached, since many operations of a tick share one."""
    return str(occurrence.replace(microsecond=0))


def make_operation_id(
    action_uid: str, occurrence: datetime, user_id: str | None = None
) -> UUID:
    """Return the id of the operation for *occurrence*; of a user, if event-driven."""
    text = f"{action_uid} | {format_occurrence(occurrence)}"
    return str_to_uuid(text if user_id is None else f"{text} | {user_id}")


def make_manual_id(action_uid: str, key: str) -> UUID:
    """Return the id of a manual run; *key* is the caller's idempotency key."""
    return str_to_uuid(f"{action_uid} | manual | {key}")


def make_after_id(action_uid: str, ended: UUID) -> UUID:
    """Return the id of the run that follows the operation *ended* of another action."""
    return str_to_uuid(f"{action_uid} | after | {ended}")


def make_missed_id(action_uid: str, first: datetime) -> UUID:
    """Return the id of the ``missed`` row whose first occurrence is *first*."""
    return str_to_uuid(f"{action_uid} | missed | {format_occurrence(first)}")


def make_longer_missed_id(missed_id: UUID, last: datetime) -> UUID:
    """
    Return the id of a ``missed`` row that begins where the row *missed_id* does.

    It ends later: the clock was set back, and an outage that was longer began at the
    same occurrence.
    """
    return str_to_uuid(f"{missed_id} | to {format_occurrence(last)}")

"""Whether a scheduled action runs, and why it has a new revision. Pure."""

from __future__ import annotations

from enum import StrEnum


class ActionState(StrEnum):
    """Whether an action runs; if several of these hold, the last of them counts."""

    ACTIVE = "active"
    INACTIVE = "inactive"
    PAUSED = "paused"
    QUARANTINED = "quarantined"
    DELETED = "deleted"


class Change(StrEnum):
    """What was done to an action; the revision that follows keeps it."""

    POSTED = "posted"
    REPLACED = "replaced"
    ROLLED_BACK = "rolled back"  # the document of an earlier revision was put back
    HOLIDAYS = "holidays"  # a calendar that it excepts was applied
    PAUSED = "paused"
    RESUMED = "resumed"
    QUARANTINED = "quarantined"
    RESTORED = "restored"  # a backup was put back, and the time since is left out
    DELETED = "deleted"


#: These take an action out of the tick until its next start.
EXITS = frozenset({Change.PAUSED, Change.QUARANTINED, Change.DELETED})

#: These give an action another document. A face that lets somebody edit the document
#: asks whether the latest of them is the one that was read, so that neither a pause nor
#: a quarantine in between costs them their edit.
OF_DOCUMENT = frozenset({Change.POSTED, Change.REPLACED, Change.ROLLED_BACK})

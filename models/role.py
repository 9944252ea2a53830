"""What somebody may do. Pure."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """
    What somebody may do; each role may do all that the ones before it may.

    A viewer reads. An operator also runs, cancels, retries, pauses, resumes, backfills,
    sends mails again and sends events. An editor also writes actions, users, apps and
    data. An admin also manages keys, reads the record of changes and deletes an app.
    """

    VIEWER = "viewer"
    OPERATOR = "operator"
    EDITOR = "editor"
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        """The place among the roles; more is more."""
        return list(Role).index(self)

    # Text has an order of its own, by the alphabet, in which a viewer would be more
    # than an admin.
    def __lt__(self, other: str) -> bool:
        return self.rank < Role(other).rank

    def __le__(self, other: str) -> bool:
        return self.rank <= Role(other).rank

    def __gt__(self, other: str) -> bool:
        return self.rank > Role(other).rank

    def __ge__(self, other: str) -> bool:
        return self.rank >= Role(other).rank

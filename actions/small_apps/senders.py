"""Whether a small app may send mails under the address that it chose. Pure."""

from __future__ import annotations

from collections.abc import Collection

from models.errors import Problem
from models.small_app import SmallAppModel


def find_sender_doubts(model: SmallAppModel, allowed: Collection[str]) -> list[Problem]:
    """
    Return why the sender that *model* chose would not be used, if it would not.

    It is no error: the settings of workers count, and mails are sent all the same.

    Args:
        allowed: The hosts in the settings of this process, in lower case.
    """
    sender = None if model.mail is None else model.mail.from_address
    doubt = find_sender_doubt(sender, allowed)
    return [] if doubt is None else [Problem("/mail/from_address", doubt, "")]


def find_sender_doubt(sender: str | None, allowed: Collection[str]) -> str | None:
    """Return why *sender*, of a small app, would not be used; None: it would."""
    if not sender or sender.rpartition("@")[2].lower() in allowed:
        return None
    return (
        f"{sender!r} is of no host in MINUTEHAND_MAIL_SENDER_HOSTS here, so mails"
        " come from the sender of the installation."
    )

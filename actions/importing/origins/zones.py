"""The zone of ours that a fixed offset from UTC is. Pure."""

from __future__ import annotations

from datetime import timedelta

from actions.importing.origins.imported import CannotBeError

_HOUR = timedelta(hours=1)


def name_offset(offset: timedelta) -> str:
    """
    Return the zone whose clocks are always *offset* ahead of UTC.

    Raises:
        CannotBeError: If there is none: they exist for whole hours.

    >>> name_offset(timedelta(hours=2)), name_offset(timedelta(0))
    ('Etc/GMT-2', 'UTC')
    """
    hours, rest = divmod(offset, _HOUR)
    if rest or not -12 <= hours <= 14:
        msg = (
            f"No zone is always {offset} ahead of UTC. Give the entry a zone by name,"
            " such as Asia/Kolkata."
        )
        raise CannotBeError(msg)
    # These names count westwards, as POSIX does.
    return f"Etc/GMT{-hours:+d}" if hours else "UTC"

"""The claims of the demo, checked against the recorded operations and the mails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import sqlalchemy as sa
from rich.text import Text

from actions.lookup import find_action
from cli.connection import read_database
from cli.demo.data import APP, EVERY_MINUTE, MISSED, REPORT
from cli.demo.demo import ENOUGH_S
from cli.output import out
from models.operation_state import OperationState, Trigger
from operations.operation_filter import OperationFilter
from overview.operations import ShownOperation, fetch_shown_operations
from settings import Settings

#: Fewer minutes than this prove nothing: the check fails.
_TICKS = 2

#: More operations than a demo makes in a day.
_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class CheckedClaim:
    """One claim, and whether it held."""

    holds: bool
    claim: str


def check_demo(engine: sa.Engine, settings: Settings, until: datetime | None) -> int:
    """
    Check that each minute ran exactly once, and print each claim with its result.

    Args:
        engine: Of the demo.
        settings: Of the demo.
        until: The last tick that counts, aware UTC. None: there was no tick.

    Returns:
        0 if every claim held, else 1.
    """
    with read_database(engine) as connection:
        posted = find_action(connection, EVERY_MINUTE)
        everything = OperationFilter()
        operations = fetch_shown_operations(connection, everything, limit=_LIMIT)
    start = posted.effective_from
    end = start if until is None else until
    mails = len(list(Path(settings.smtp_url).glob("*.eml")))
    findings = check(operations, start=start, end=end, mails=mails)
    for finding in findings:
        word, style = ("PASS", "green") if finding.holds else ("FAIL", "bold red")
        out().print(
            Text(word, style=style).append(f"  {finding.claim}", style="default"),
            soft_wrap=True,
        )
    return int(not all(finding.holds for finding in findings))


def check(
    operations: Sequence[ShownOperation], *, start: datetime, end: datetime, mails: int
) -> list[CheckedClaim]:
    """
    Return the claims about *operations*, each with whether it holds.

    Args:
        operations: All operations; those of other apps are asked for their mails alone.
        start: When the action that runs each minute took effect, aware UTC.
        end: The last tick, aware UTC.
        mails: How many files are in the folder of mails.
    """
    expected = find_minutes(start, end)
    ours = [each for each in operations if each.app == APP]
    ran = [
        each
        for each in ours
        if each.action_uid == EVERY_MINUTE
        and each.trigger is Trigger.SCHEDULE
        and each.occurrence <= end
    ]
    recorded = sorted(each.occurrence for each in ran)
    succeeded = [e for e in ran if e.state == OperationState.SUCCEEDED]

    manual = [e for e in ours if e.trigger == Trigger.MANUAL]
    weekly = [e for e in manual if e.action_uid != REPORT]
    report = [e for e in manual if e.action_uid == REPORT]
    missed = [e for e in ours if e.action_uid == MISSED]
    written = [e for e in ours if e.trigger == Trigger.EVENT]
    sent = sum(
        step.result["sent"]
        for each in operations
        for step in each.steps
        if step.result and "sent" in step.result
    )
    return [
        CheckedClaim(len(expected) >= _TICKS, _describe_minutes(expected)),
        CheckedClaim(recorded == expected, "each was recorded exactly once"),
        CheckedClaim(
            len(succeeded) == len(expected), "each ran exactly once and succeeded"
        ),
        _check_all(weekly, "the weekly update, run by hand, succeeded"),
        _check_all(written, "the user who was away got one mail"),
        CheckedClaim(
            [(each.state, each.attempt > 1) for each in report]
            == [(OperationState.SUCCEEDED, True)],
            "the report whose worker was killed succeeded in a later attempt",
        ),
        CheckedClaim(
            OperationState.MISSED in {each.state for each in missed},
            "the runs that fell into the outage are recorded as missed",
        ),
        CheckedClaim(
            sent == mails > 0, f"of {mails} mails that came {sent} were reported sent"
        ),
    ]


def _describe_minutes(minutes: Sequence[datetime]) -> str:
    """Say which minutes began, and what to do if they are too few to prove anything."""
    shown = ", ".join(f"{at:%H:%M}Z" for at in minutes)
    many = "1 minute" if len(minutes) == 1 else f"{len(minutes)} minutes"
    text = f"{many} began" + (f": {shown}" if shown else "")
    if len(minutes) >= _TICKS:
        return text
    return f"{text}; the check needs {_TICKS}. Use --for {ENOUGH_S} or more."


def _check_all(operations: Sequence[ShownOperation], claim: str) -> CheckedClaim:
    states = [each.state for each in operations]
    return CheckedClaim(states == [OperationState.SUCCEEDED], claim)


def find_minutes(start: datetime, end: datetime) -> list[datetime]:
    """
    Return the whole minutes in [start, end], both aware.

    >>> find_minutes(
    ...     datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC),
    ...     datetime(2026, 1, 1, 0, 2, tzinfo=UTC),
    ... )[0].minute
    1
    """
    first = start.astimezone(UTC).replace(second=0, microsecond=0)
    minutes = []
    while first <= end:
        if first >= start:
            minutes.append(first)
        first += timedelta(minutes=1)
    return minutes

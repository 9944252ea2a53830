"""All of it together: what is wrong now, what runs, and what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from typing_extensions import TypedDict

from overview.doctor.finding import Finding
from web.now.fetch_failures import Failures, FailuresJson, fetch_failures
from web.now.coming import Coming, ComingJson, fetch_coming
from overview.installation.lag import Lag, LagJson, fetch_lag
from web.now.fetch_not_run import Kind, NotRunList, NotRunListJson, fetch_not_run
from web.now.fetch_pulse import Pulse, PulseJson, fetch_pulse
from web.now.fetch_running import UnderWay, UnderWayJson, fetch_under_way
from web.now.verdict import Day, Verdict, VerdictJson, judge
from settings import Settings


class NowJson(TypedDict):
    """
    What is wrong at this moment, what is fine, and what comes next.

    ``running`` are those that run longest, and those that wait for another attempt;
    ``next`` the occurrences that come first.
    """

    now: datetime
    app: str | None
    verdict: VerdictJson
    pulse: PulseJson
    lag: LagJson
    failures: FailuresJson
    not_run: NotRunListJson
    running: list[UnderWayJson]
    next: list[ComingJson]


@dataclass(frozen=True, slots=True)
class Now:
    """
    What is wrong at this moment, what is fine, and what comes next.

    Args:
        app: The only small app that it is about. None: all.
    """

    app: str | None
    verdict: Verdict
    pulse: Pulse
    lag: Lag
    failures: Failures
    not_run: NotRunList
    under_way: Sequence[UnderWay]
    coming: Sequence[Coming]

    def as_json(self) -> NowJson:
        """Return the documented object; keys are only added."""
        return {
            "now": self.pulse.now,
            "app": self.app,
            "verdict": self.verdict.as_json(),
            "pulse": self.pulse.as_json(),
            "lag": self.lag.as_json(),
            "failures": self.failures.as_json(),
            "not_run": self.not_run.as_json(),
            "running": [each.as_json() for each in self.under_way],
            "next": [each.as_json() for each in self.coming],
        }


def count_day(failures: Failures, not_run: NotRunList) -> Day:
    """Return how many did not run as they should."""
    counts = not_run.counts
    return Day(
        failed=failures.count,
        causes=len(failures.causes),
        missed=counts[Kind.MISSED],
        skipped=counts[Kind.SKIPPED],
        uncertain=counts[Kind.UNCERTAIN],
        late=counts[Kind.LATE],
    )


def fetch_now(
    connection: sa.Connection,
    settings: Settings,
    *,
    app: str | None = None,
    far: Sequence[Finding] = (),
) -> Now:
    """
    Return what is wrong at this moment, what is fine, and what comes next.

    Args:
        far: What was found a short while ago outside of the database.
        app: Uid of the only small app that it is to be about. None: all.

    Raises:
        NotFoundError: There is no such small app.
    """
    pulse = fetch_pulse(connection, settings, app=app)
    failures = fetch_failures(connection, app=app)
    not_run = fetch_not_run(connection, app=app)
    return Now(
        app=app,
        verdict=judge(
            [*pulse.findings, *far],
            count_day(failures, not_run),
            has_actions=pulse.has_actions,
        ),
        pulse=pulse,
        lag=fetch_lag(connection, app=app),
        failures=failures,
        not_run=not_run,
        under_way=fetch_under_way(connection, app=app),
        coming=fetch_coming(connection, app=app),
    )

"""What the demo tells while it runs: ticks, and what became of operations."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import sqlalchemy as sa
from rich.text import Text

from actions.tick import TickReport
from cli.connection import read_database
from cli.demo.data import APP, MISSED, REPORT, shorten_path
from cli.demo.scenes import KilledWorker, describe_missed
from cli.output import out
from models.database.engine import read_host_clock
from models.decision import get_action_name
from models.errors import UnreachableError
from models.operation_state import OperationState, StepState
from operations.operation_filter import OperationFilter
from overview.operations import ShownOperation, describe_result, fetch_shown_operations
from settings import Settings

#: Seconds between two looks at the database.
_EVERY_S = 0.25

_SECOND = timedelta(seconds=1)

#: The most operations that are looked at.
_SHOWN = 8

#: What does not happen by itself.
_STAGED = (
    "Staged: a worker that is killed, an outage two hours long, and a user who comes"
    " back. The rest runs as it would anywhere."
)

#: How long operations that still run when the time is over may take to end.
_GRACE = timedelta(seconds=20)


class Teller(threading.Thread):
    """
    Tells what happens in the demo, and ends it when its time is over.

    Args:
        engine: Only read from.
        settings: Of the demo.
        stop: The teller sets it when the time is over, and ends when Ctrl-C sets it.
        doomed: Killed when its time has come.
        seconds: How long the demo lasts. None: until Ctrl-C.
    """

    def __init__(
        self,
        engine: sa.Engine,
        settings: Settings,
        stop: threading.Event,
        doomed: KilledWorker,
        *,
        seconds: int | None,
    ) -> None:
        """Prepare; nothing is told before ``start``."""
        super().__init__(name="demo-teller", daemon=True)
        self.until: datetime | None = None
        self.is_complete = False
        self.ways_in: list[str] = []
        self.sign_in: list[str] = []
        self._doomed = doomed
        self._scenes: list[str] = []
        self._engine = engine
        self._settings = settings
        self._stop_event = stop
        self._seconds = seconds
        self._began = time.monotonic()
        self._ticks: list[TickReport] = []
        self._told: set[tuple[datetime, str]] = set()
        self._told_scenes: set[str] = set()

    def on_tick(self, report: TickReport) -> None:
        """Remember a tick; called by the scheduler."""
        self._ticks.append(report)

    def run(self) -> None:
        """Tell what happens until the demo is stopped or its time is over."""
        for line in self._head():
            out().print(line, soft_wrap=True)
        shown: list[ShownOperation] = []
        while not self._stop_event.wait(_EVERY_S):
            self._doomed.look(read_host_clock())
            shown = self._look() or shown
            if self._is_over(shown):
                self.is_complete = True
                self._stop_event.set()
        self._look()

    def _look(self) -> list[ShownOperation]:
        shown = self._read()
        if shown:
            self._tell(shown)
        return shown

    def _read(self) -> list[ShownOperation]:
        try:
            with read_database(self._engine) as connection:
                shown, report, missed = (
                    fetch_shown_operations(connection, wanted, limit=_SHOWN)
                    for wanted in (
                        OperationFilter(app=APP),
                        OperationFilter(action_uid=REPORT),
                        OperationFilter(
                            action_uid=MISSED, states=frozenset({OperationState.MISSED})
                        ),
                    )
                )
            self._scenes = [
                self._doomed.describe(report[0] if report else None),
                *describe_missed(
                    self._engine,
                    missed[0] if missed else None,
                    home=str(self._settings.home),
                ),
            ]
        except UnreachableError:
            return []  # the database is busy for a moment; look again soon
        return shown

    def _is_over(self, shown: list[ShownOperation]) -> bool:
        """Return whether the time is over and all operations begun in it have ended."""
        if self._seconds is None:
            return False
        left = self._seconds - (time.monotonic() - self._began)
        if left > 0:
            return False
        if self.until is None:
            self.until = self._ticks[-1].now if self._ticks else read_host_clock()
        # Operations of a later tick are neither waited for nor checked.
        begun = [s for s in shown if s.recorded_at <= self.until + _SECOND]
        return left < -_GRACE.total_seconds() or all(s.is_final for s in begun)

    def _head(self) -> list[Text]:
        mails = shorten_path(Path(self._settings.smtp_url))
        return [
            Text("Minutehand demo", style="bold").append(
                ": each run is written down before it is sent.", style="default"
            ),
            Text(f"Mails are files in {mails}. Ctrl-C stops the demo."),
            Text(_STAGED),
            *(Text(line) for line in (*self.sign_in, *self.ways_in)),
        ]

    def _tell(self, shown: list[ShownOperation]) -> None:
        """Print news as lines."""
        # Waiting a moment keeps the lines in order; at the end everything is printed.
        moment = timedelta() if self._stop_event.is_set() else _SECOND
        until = read_host_clock() - moment
        for at, text in find_news(self._ticks, shown):
            if at <= until and (at, text) not in self._told:
                self._told.add((at, text))
                out().print(Text(f"{at:%H:%M:%S}Z {text}"), soft_wrap=True)
        for scene in self._scenes:
            if scene not in self._told_scenes:
                self._told_scenes.add(scene)
                out().print(Text(scene), soft_wrap=True)


def find_news(
    ticks: Sequence[TickReport], shown: Sequence[ShownOperation]
) -> list[tuple[datetime, str]]:
    """Return what happened with its instant (aware UTC), the earliest first."""
    news = [
        (tick.now, f"tick: {tick.due} due, {tick.recorded} recorded") for tick in ticks
    ]
    for each in shown:
        name = get_action_name(each.triggered_by)
        done = [
            (step.finished_at, f"{name}: {step.name}: {describe_result(step.result)}")
            for step in each.steps
            if step.state is StepState.SUCCEEDED and step.finished_at is not None
        ]
        news += done
        if each.is_final:
            # One transaction ends both, but the step's time in it may be the later one.
            ended = max([each.finished_at or each.recorded_at, *(at for at, _ in done)])
            news.append((ended, f"{name}: {each.state}{_reason(each.reason)}"))
    return sorted(news, key=lambda new: new[0])


def _reason(reason: str | None) -> str:
    return f" ({reason})" if reason else ""

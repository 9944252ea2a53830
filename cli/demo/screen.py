"""What the demo shows while it runs: ticks, operations and the progress of steps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import sqlalchemy as sa
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from actions.tick import TickReport
from cli.connection import read_database
from cli.demo.data import APP, MISSED, REPORT, shorten_path
from cli.demo.scenes import KilledWorker, describe_missed
from cli.operations import format_progress, format_took
from cli.output import STATE_STYLES, make_table, out, style_state
from models.database.engine import read_host_clock
from models.decision import get_action_name
from models.errors import UnreachableError
from models.operation_state import OperationState, StepState
from models.units import format_count
from operations.operation_filter import OperationFilter
from overview.operations import ShownOperation, describe_result, fetch_shown_operations
from settings import Settings

#: Seconds between two looks at the database.
_EVERY_S = 0.25

_SECOND = timedelta(seconds=1)

#: The most operations on the screen.
_SHOWN = 8

#: The fewest that are drawn, and the lines of the screen around them.
_FEWEST, _OTHER_LINES = 3, 23

#: What does not happen by itself.
_STAGED = (
    "Staged: a worker that is killed, an outage two hours long, and a user who comes"
    " back. The rest runs as it would anywhere."
)

_COLUMNS = ("occurrence", "operation", "state", "took")

#: How long operations that still run when the time is over may take to end.
_GRACE = timedelta(seconds=20)

#: How the screen marks the states of steps.
MARKS = {
    StepState.PENDING: "·",
    StepState.RUNNING: "▶",
    StepState.SUCCEEDED: "✓",
    StepState.FAILED: "✗",
    StepState.SKIPPED: "-",
}


class Screen(threading.Thread):
    """
    Shows the demo, and ends it when its time is over.

    Args:
        engine: Only read from.
        settings: Of the demo.
        stop: The screen sets it when the time is over, and ends when Ctrl-C sets it.
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
        """Prepare; nothing is shown before ``start``."""
        super().__init__(name="demo-screen", daemon=True)
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
        """Show the demo until it is stopped or its time is over."""
        if not out().is_terminal or out().is_dumb_terminal:
            for line in self._head():
                out().print(line, soft_wrap=True)
            self._loop(self._tell)
            return
        # On a screen of its own: what a new size leaves behind is painted over.
        with Live(console=out(), refresh_per_second=8, screen=True) as live:
            shown = self._loop(lambda shown: live.update(self._draw(shown)))
        self.sign_in, self.ways_in = [], []  # nobody answers there any more
        out().print(self._draw(shown))

    def _loop(
        self, show: Callable[[list[ShownOperation]], None]
    ) -> list[ShownOperation]:
        shown: list[ShownOperation] = []
        while not self._stop_event.wait(_EVERY_S):
            self._doomed.look(read_host_clock())
            shown = self._look(show) or shown
            if self._is_over(shown):
                self.is_complete = True
                self._stop_event.set()
        return self._look(show) or shown

    def _look(
        self, show: Callable[[list[ShownOperation]], None]
    ) -> list[ShownOperation]:
        shown = self._read()
        if shown:
            show(shown)
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
            *(Text(line, overflow="fold") for line in (*self.sign_in, *self.ways_in)),
        ]

    def _draw(self, shown: list[ShownOperation]) -> Group:
        return Group(
            *self._head(),
            Text(),
            self._draw_ticks(),
            self._draw_operations(shown),
            Text(),
            Text("What no cron does", style="bold"),
            *(Text(scene) for scene in self._scenes),
            Text(
                f"{format_count(count_mails(self._settings), 'mail', 'mails')} so far."
                f" {self._describe_left()}"
            ),
            # Once more where one looks last: what is above may have scrolled away.
            *(Text(line, overflow="fold") for line in self.sign_in),
        )

    def _draw_ticks(self) -> Text:
        line = Text("Ticks  ", style="bold")
        for tick in self._ticks[-6:]:
            line.append(f"{tick.now:%H:%M:%S}Z ", style="green")
            line.append(f"({tick.recorded} recorded)  ", style="default")
        now = read_host_clock()
        left = 60 - now.second
        return line.append(f"next in {left} s", style="bright_black")

    def _draw_operations(self, shown: list[ShownOperation]) -> Table:
        rows = [
            (
                f"{each.occurrence.astimezone(UTC):%H:%M:%S}Z",
                get_action_name(each.triggered_by),
                each.state.value,
                format_took(each.took),
            )
            for each in shown[: max(_FEWEST, out().height - _OTHER_LINES)]
        ]
        table = make_table(())
        for column in zip(_COLUMNS, *rows, strict=True):
            table.add_column(column[0], no_wrap=True, min_width=max(map(len, column)))
        table.add_column("steps", no_wrap=True, overflow="ellipsis")
        for (*texts, state, took), each in zip(rows, shown, strict=False):
            table.add_row(*texts, style_state(state), took, _draw_steps(each))
        return table

    def _describe_left(self) -> str:
        if self._seconds is None:
            return ""
        left = round(self._seconds - (time.monotonic() - self._began))
        return f"Ends in {left} s." if left > 0 else "Waiting for running operations."

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


def _draw_steps(shown: ShownOperation) -> Text:
    line = Text()
    for step in shown.steps:
        mark, style = MARKS[step.state], STATE_STYLES[step.state]
        line.append(f"{mark} {step.name}  ", style=style)
        if step.state is StepState.RUNNING:
            line.append(f"{format_progress(step.progress)}  ", style=style)
    if shown.reason:
        line.append(shown.reason, style="yellow")
    return line


def count_mails(settings: Settings) -> int:
    """Return how many mails are in the folder of the demo."""
    return len(list(Path(settings.smtp_url).glob("*.eml")))

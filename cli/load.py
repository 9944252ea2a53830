"""``load``: shows how many occurrences are coming, when, and who makes them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from actions.load.counting import NamedAction
from actions.load.forecast import Load, Outage, Quiet, forecast_load, read_away
from actions.load.foresee import EVENTS, PAUSED, TIME, UNREADABLE
from cli.connection import ask_database, get_settings
from cli.options import AppOption, read_optional_instant, read_period, takes_json, value
from cli.output import format_both, out
from models.units import format_age, list_counts

#: Small apps and quiet windows that people are shown.
_APPS = 10
_WINDOWS = 20

_LEFT_OUT = {
    EVENTS: "driven by events, which are not foreseen",
    PAUSED: "paused",
    UNREADABLE: "with a rule that cannot be read",
    TIME: "not counted for lack of time; ask for a shorter period",
}


@takes_json
def load(
    *,
    app: AppOption = None,
    from_: str | None = value("--from TIME", "Inclusive; default: now."),
    until: str | None = value(
        "--until TIME", "Exclusive, at most 7 days later; default: a day later."
    ),
    quiet: str | None = value(
        "--quiet DURATION",
        "Show when the database may be away for so long, within a week.",
    ),
    at: str | None = value("--at TIME", "With --quiet: what it costs from then on."),
) -> None:
    """
    Show the load that is coming.

    The minutes with the most occurrences, and the actions that make them, are foreseen
    from the rules of all actions that are active and not paused.
    """
    since, end = read_period(from_, until)
    from_then = read_optional_instant("--at", at)
    away = read_away(quiet, from_then, get_settings().lookback)
    found = ask_database(forecast_load, since=since, until=end, app=app, away=away)
    out().found(found, partial(_print, asks_quiet=away is not None))


def _print(found: Load, *, asks_quiet: bool) -> None:
    queues = list_counts(found.by_queue)
    left = [f"{n:,} {_LEFT_OUT[why]}" for why, n in found.left_out.items()]
    out().fields(
        [
            ("from", format_both(found.from_)),
            ("until", format_both(found.until)),
            ("occurrences", f"{found.total:,}{f' ({queues})' if queues else ''}"),
            ("actions", f"{found.actions:,}"),
            ("left out", "\n".join(left) or None),
        ]
    )
    if asks_quiet:
        _print_quiet(found.quiet)
    elif found.minutes:
        _print_load(found)


def _print_load(found: Load) -> None:
    out().table(
        found.by_app[:_APPS],
        lambda each: {"app": each.app, "occurrences": f"{each.total:,}"},
        apart=True,
    )
    out().table(
        found.hot,
        lambda each: {
            "hot minute": format_both(each.at),
            "occurrences": f"{each.total:,}",
            "by queue": list_counts(each.by_queue),
            "actions": _name(each.actions),
        },
        apart=True,
    )


def _name(actions: Sequence[NamedAction]) -> str:
    return ", ".join(f"{action.name} ({action.app})" for action in actions)


def _print_quiet(found: Quiet | None) -> None:
    if found is None:
        out().fields([("quiet", "cannot be told, for not all was counted")])
        return
    more = len(found.windows) - _WINDOWS
    out().fields(
        [
            ("away", _tell(found.outage)),
            ("cheapest", None if found.cheapest is None else _tell(found.cheapest)),
            ("quiet", None if found.windows else "never for so long"),
            ("not shown", f"{more:,} more windows" if more > 0 else None),
        ]
    )
    out().table(
        found.windows[:_WINDOWS],
        lambda each: {
            "nothing is due from": format_both(each.from_),
            "until": format_both(each.until),
            "for": format_age(each.until - each.from_),
        },
        apart=True,
    )


def _tell(outage: Outage) -> str:
    text = (
        f"{format_both(outage.from_)} to {format_both(outage.until)}:"
        f" {outage.late:,} late, {outage.missed:,} missed"
    )
    return f"{text}\n{_name(outage.actions)}".strip()

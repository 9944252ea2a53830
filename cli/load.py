"""``load``: shows how many occurrences are coming, when, and who makes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from actions.load.forecast import Load, forecast_load
from actions.load.foresee import EVENTS, PAUSED, TIME, UNREADABLE
from cli.connection import read_database
from cli.options import AppOption, JsonOption, read_period
from cli.output import format_both, out, print_fields, print_found, print_table

#: Small apps that people are shown.
_APPS = 10

_LEFT_OUT = {
    EVENTS: "driven by events, which are not foreseen",
    PAUSED: "paused",
    UNREADABLE: "with a rule that cannot be read",
    TIME: "not counted for lack of time; ask for a shorter period",
}


def load(
    *,
    app: AppOption = None,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Inclusive; default: now."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="TIME",
            help="Exclusive, at most 7 days later; default: a day later.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """
    Show the load that is coming.

    The minutes with the most occurrences, and the actions that make them, are foreseen
    from the rules of all actions that are active and not paused.
    """
    since, end = read_period(from_, until)
    with read_database() as connection:
        found = forecast_load(connection, since=since, until=end, app=app)
    print_found(found, _print, json=json)


def _count(by_queue: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {queue}" for queue, count in by_queue.items())


def _print(found: Load) -> None:
    queues = _count(found.by_queue)
    left = [f"{n:,} {_LEFT_OUT[why]}" for why, n in found.left_out.items()]
    print_fields(
        [
            ("from", format_both(found.from_)),
            ("until", format_both(found.until)),
            ("occurrences", f"{found.total:,}{f' ({queues})' if queues else ''}"),
            ("actions", f"{found.actions:,}"),
            ("left out", "\n".join(left) or None),
        ]
    )
    if not found.minutes:
        return
    out().print()
    print_table(
        found.by_app[:_APPS],
        lambda each: {"app": each.app, "occurrences": f"{each.total:,}"},
    )
    out().print()
    print_table(
        found.hot,
        lambda each: {
            "hot minute": format_both(each.at),
            "occurrences": f"{each.total:,}",
            "by queue": _count(each.by_queue),
            "actions": ", ".join(
                f"{action.name} ({action.app})" for action in each.actions
            ),
        },
    )

"""``doctor`` finds problems before they cause trouble; ``support-bundle`` tells."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Annotated

import typer
from rich.text import Text

from cli.connection import get_engine, get_settings, read_database
from cli.options import JsonOption
from cli.output import print_found, print_table
from models.errors import UsageError
from models.json_form import write_json
from overview.doctor.checks import LOOKS
from overview.doctor.examine import find_trouble, look_at_own_scheduler
from overview.doctor.finding import Finding, Health, find_worst
from overview.installation.installed import make_bundle

#: Colours; the words say the same without them.
STYLES = {Health.GOOD: "green", Health.DOUBTFUL: "yellow", Health.BAD: "bold red"}


def doctor(
    *,
    tzdata: Annotated[
        bool,
        typer.Option(
            "--tzdata", help="Check only what a new time zone database would move."
        ),
    ] = False,
    scheduler: Annotated[
        bool,
        typer.Option("--scheduler", help="Check only the scheduler of this host."),
    ] = False,
    json: JsonOption = False,
) -> None:
    """
    Check the installation for problems.

    Exits with 1 if something is bad: no leader, no tick, a broker that does not answer,
    a queue without a worker, operations that are not sent, a missing grant, a full
    disk, or a schema of another version.
    """
    findings = list(_find(tzdata=tzdata, scheduler=scheduler))
    print_found(findings, print_findings, json=json)
    if find_worst(findings) is Health.BAD:
        raise typer.Exit(1)


def print_findings(findings: Iterable[Finding]) -> None:
    """Print *findings* as a table for people."""
    print_table(
        findings,
        lambda f: {
            "": Text(f.health.value, style=STYLES[f.health]),
            "subject": f.subject,
            "found": f.detail,
        },
    )


def _find(*, tzdata: bool, scheduler: bool) -> Iterator[Finding]:
    settings = get_settings()
    if not scheduler:
        names = ["tzdata"] if tzdata else tuple(LOOKS)
        yield from find_trouble(get_engine(), settings, names=names)
        return
    url = settings.metrics_url
    if url is None:
        msg = (
            "--scheduler reads the metrics of the scheduler, which are switched off."
            " Set MINUTEHAND_METRICS_PORT."
        )
        raise UsageError(msg)
    yield look_at_own_scheduler(get_engine(), url)


def support_bundle() -> None:
    """
    Print a support bundle as JSON, without secrets and data of small apps.

    It has what doctor finds, status, versions, settings, who led, and the failures of a
    day by reason.
    """
    settings = get_settings()
    findings = list(find_trouble(get_engine(), settings))
    with read_database() as connection:
        bundle = make_bundle(connection, settings, findings)
    sys.stdout.write(f"{write_json(bundle, indent=2)}\n")

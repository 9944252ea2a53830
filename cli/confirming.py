"""Asking before many things change: on a terminal a question, else ``--yes``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cli.output import print_note
from models.errors import UsageError

YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Count, and change nothing.")
]


def confirm(what: str, *, yes: bool, look: str = "") -> bool:
    """
    Ask whether to do *what*, such as "Cancel 12 operations"; True if so.

    Args:
        what: Without a question mark.

        yes: Whether the answer is known.

        look: What else to write, such as ", or --dry-run to look first".

    Raises:
        UsageError: There is nobody to ask, and *yes* is False.
    """
    if yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        msg = f"{what}? There is nobody to ask: add --yes{look}."
        raise UsageError(msg)
    return typer.confirm(f"{what}?", err=True)


def confirm_change_of_many(what: str, *, yes: bool) -> None:
    """
    Ask whether to do *what*, of which there is a dry run; end the call if not.

    Raises:
        typer.Exit: With code 1; the answer was no.

        UsageError: There is nobody to ask, and *yes* is False.
    """
    if not confirm(what, yes=yes, look=", or --dry-run to look first"):
        print_note("Nothing was changed.")
        raise typer.Exit(1)

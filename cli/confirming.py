"""Asking before many things change: a question on a terminal, elsewhere ``--yes``."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

import typer

from cli.options import JsonOption, takes
from cli.output import print_note
from models.errors import UsageError

YesOption = Annotated[bool, typer.Option("--yes", help="Go ahead without asking.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Only count; change nothing.")
]


@dataclass(frozen=True, slots=True)
class ChangeTerms:
    """Whether only to count, whether to ask first, and how to tell what was done."""

    dry_run: DryRunOption = False
    yes: YesOption = False
    json: JsonOption = False


#: Gives a command, which takes ``terms``, the options that these are made of.
takes_terms = takes("terms", ChangeTerms)


def confirm(what: str, *, yes: bool, look: str = "") -> bool:
    """
    Return whether to do *what*, which is asked unless *yes*.

    Args:
        what: Such as "Cancel 12 operations", without a question mark.
        yes: Do not ask: the answer is yes.
        look: Added to the hint of the error, such as ", or --dry-run to look first".

    Raises:
        UsageError: There is no terminal to ask on, and *yes* is False.
    """
    if yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        msg = f"{what}? There is no terminal to ask on: add --yes{look}."
        raise UsageError(msg)
    return typer.confirm(f"{what}?", err=True)


def confirm_change_of_many(what: str, *, yes: bool) -> None:
    """
    Ask whether to do *what*; the command must have a ``--dry-run``.

    Raises:
        typer.Exit: With code 1: the answer was no.
        UsageError: There is no terminal to ask on, and *yes* is False.
    """
    if not confirm(what, yes=yes, look=", or --dry-run to look first"):
        print_note("Nothing was changed.")
        raise typer.Exit(1)

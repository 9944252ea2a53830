"""
``demo``: Minutehand at work, on a small app with real data.

This module imports little, so that something is on the screen at once; what the demo
does is in play.py.
"""

from __future__ import annotations

import shutil
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from cli.output import out
from models.errors import UsageError

#: Seconds in which at least two minutes begin, and their runs end.
ENOUGH_S = 125

#: This file marks the folder of an earlier demo, which may be removed.
_MARK = ".minutehand-demo"


def demo(
    *,
    seconds: Annotated[
        int | None,
        typer.Option(
            "--for",
            metavar="SECONDS",
            min=1,
            help="Stop after this time, then check that each minute ran exactly once;"
            f" needs {ENOUGH_S} or more.",
        ),
    ] = None,
    home: Annotated[
        Path,
        typer.Option(
            "--home", metavar="DIR", help="Folder of the demo; emptied at each start."
        ),
    ] = Path(".minutehand/demo"),
) -> None:
    """
    Show what Minutehand does, with real data.

    Scheduler and worker run in this process, on one SQLite file. Nothing is installed
    and nothing is sent: mails are written into a folder. Ctrl-C stops the demo.
    """
    folder = _make_folder(home)
    out().print(Text("Minutehand demo", style="bold"))
    say(f"Everything is in {folder}: database, data, mails, log.")
    say("Loading the scheduler, a Celery worker and the pages ...")
    raise typer.Exit(import_module("cli.demo.play").play(folder, seconds, say=say))


def say(text: str) -> None:
    """Print what is being done."""
    out().print(Text(text), soft_wrap=True)


def _make_folder(home: Path) -> Path:
    """Return *home*, emptied; refuse a folder that was not made by an earlier demo."""
    folder = home.expanduser().absolute()
    if folder.is_dir() and any(folder.iterdir()):
        if not (folder / _MARK).exists():
            raise UsageError(
                f"--home: {folder} is not empty, and no demo made it. Name an empty"
                " folder, or a new one."
            )
        shutil.rmtree(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _MARK).touch()
    except OSError as error:
        raise UsageError(
            f"--home: {folder}: {error.strerror}. Name a folder that may be written to."
        ) from None
    return folder

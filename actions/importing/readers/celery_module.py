"""The ``beat_schedule`` of a Celery application, read in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from actions.importing.origins.imported import Entry
from models.errors import UnreachableError, UsageError
from models.fields.server_url import hide_sign_in

_CHILD = Path(__file__).with_name("celery_module_child.py")

#: Importing a large project, with a cold disk, takes its time.
_TIMEOUT_S = 120

#: Letters of what the project said before it failed.
_LONGEST_SAID = 300

_URL = re.compile(r"\w+://\S+")


def read_beat_schedule(module: str, *, python: str | None) -> tuple[Entry, ...]:
    """
    Return the entries of the application in *module*, in their order.

    Args:
        module: As for ``celery -A``: ``proj``, ``proj.celery`` or ``proj.celery:app``,
            found from the working directory.
        python: Of the project's environment. None: our own.

    Raises:
        UsageError: If it is not there, is not an application, or fails.
        UnreachableError: If importing it takes too long.
    """
    if module.endswith(".py") or os.sep in module:
        name = module.removesuffix(".py").strip(f".{os.sep}").replace(os.sep, ".")
        raise UsageError(
            f"{module!r} is a file, and a module is wanted, as for celery -A. Did you"
            f" mean {name!r}?"
        )
    answer = _run([python or sys.executable, "-B", str(_CHILD), module])
    try:
        found = json.loads(answer)
    except ValueError:
        msg = f"{module}: its process answered nothing that can be read."
        raise UsageError(msg) from None
    zone, entries = {"timezone": found["timezone"]}, found["entries"]
    return tuple(
        Entry(each["name"], {**each, **zone}, each.get("problem", ""))
        for each in entries
    )


def _run(command: list[str]) -> str:
    """Return what *command* printed; end it, and what it started, when time is up."""
    module = command[-1]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        msg = f"{command[0]} cannot be run: {error.strerror}. Name a Python (--python)."
        raise UsageError(msg) from None
    try:
        answer, said = process.communicate(timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise UnreachableError(
            f"{module}: importing it took longer than {_TIMEOUT_S} s. Does it wait for"
            " a server while it is imported?"
        ) from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode:
        last = said.strip().rpartition("\n")[2]
        # an error may quote the address of a database or broker, with its password
        last = _URL.sub(lambda found: hide_sign_in(found[0]), last)[:_LONGEST_SAID]
        raise UsageError(
            f"{module} cannot be imported: {last or 'it says nothing'}. Run this where"
            " celery -A finds it, with the Python of its project (--python)."
        )
    return answer

"""What the benchmarks have in common as commands: options, signals, exit codes."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable

import psutil

from tests.servers import ServerError


def make_parser(name: str, told: str) -> argparse.ArgumentParser:
    """Return the parser of the module *name*; its docstring *told* what it does."""
    summary = told.strip().split("\n\n")[0]
    return argparse.ArgumentParser(f"python -m {name}", description=summary)


def run_command(measure: Callable[[], int]) -> int:
    """
    Run *measure* to its end; SIGTERM ends it as Ctrl-C does, so that servers stop.

    The exit code is what *measure* returns: 0, or 1 if something is beyond its goal. 1
    also if a server does not start or what is due does not come in time, which is told;
    130 if somebody stopped it.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return measure()
    except ServerError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130


def describe_load() -> str:
    """Return how busy the machine is, to stand beside what was measured on it."""
    return f"load of the machine {psutil.getloadavg()[0]:.1f}"

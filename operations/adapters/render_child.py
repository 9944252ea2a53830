"""
The program that renders mail templates, in a process with its own limits.

renderer.py starts it once for many templates. It reads requests from standard input and
writes one line of JSON for each mail. It ends when standard input ends, or when a
template exceeds the limits; the worker loses nothing.
"""

from __future__ import annotations

import json
import pickle
import resource
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO

from models.errors import StepError
from operations.adapters.confinement import confine
from operations.mail.template import MEMORY_BYTES, MailTemplate

#: CPU for each mail beyond the first, in seconds; a plain one takes a hundredth of it.
CPU_A_MAIL_S = 0.02


def main() -> None:
    """Render templates until standard input ends."""
    # A worker that is stopped finishes what it runs, and needs us for that.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    confine()
    _limit(resource.RLIMIT_AS, _get_address_space() + MEMORY_BYTES)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_CORE, 0)
    requests, answers = sys.stdin.buffer, sys.stdout
    while True:
        try:
            # Pickled by the worker, never by a template.
            template, recipients, cpu_s = pickle.load(requests)  # noqa: S301
        except EOFError:
            return
        _allow_cpu(cpu_s + CPU_A_MAIL_S * len(recipients))
        try:
            compiled = MailTemplate(template)
            for values in recipients:
                _write(answers, asdict(compiled.render(values)))
        except StepError as error:
            _write(answers, {"error": str(error)})
        else:
            _write(answers, {"done": str(len(recipients))})


def _write(answers: IO[str], answer: Mapping[str, str | None]) -> None:
    answers.write(f"{json.dumps(answer)}\n")
    answers.flush()


def _allow_cpu(seconds: float) -> None:
    """Allow this process so much more CPU time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    allowed = used.ru_utime + used.ru_stime + seconds
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(allowed) + 1, hard))


def _limit(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))


def _get_address_space() -> int:
    """Return the bytes that this process has mapped; 0 if the system does not say."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
    except OSError:
        return 0
    return int(pages) * resource.getpagesize()


if __name__ == "__main__":
    main()

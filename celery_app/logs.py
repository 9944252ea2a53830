"""
The output of a process: every line is in the form of our logs, Celery's lines included.

Celery prints its banner and its farewell without logging them, and warns before it
sets up logging.
"""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import threading
from datetime import UTC
from typing import Any, TextIO

import structlog
from celery.apps import worker as celery_worker
from celery.signals import celeryd_init

from models.database.engine import read_host_clock
from settings import Settings
from telemetry import Event, configure_logging, is_json


class OwnLines(io.TextIOBase):
    """
    Turns printed text into log lines: a stand-in for ``sys.stdout`` and ``sys.stderr``.

    Args:
        name: Name of the logger.
        target: The former stream; ``fileno`` returns its file descriptor.
    """

    def __init__(self, name: str, target: TextIO) -> None:
        """Begin with an empty line."""
        self._lines = logging.getLogger(name)
        self._target = target
        self._begun = ""
        self._is_telling = False

    def writable(self) -> bool:
        """Accept text."""
        return True

    def fileno(self) -> int:
        """Return the file descriptor of the former stream."""
        return self._target.fileno()

    def write(self, text: str) -> int:
        """Log each complete line of *text*; keep the rest for the next call."""
        *lines, self._begun = (self._begun + text).split("\n")
        if self._is_telling:  # logging itself failed, and complains
            return len(text)
        self._is_telling = True
        try:
            for line in lines:
                if line.strip():
                    self._lines.warning("%s", line.rstrip())
        finally:
            self._is_telling = False
        return len(text)


def log_crashes() -> None:
    """Log warnings, and errors that end a process or a thread."""
    logging.captureWarnings(capture=True)

    def tell(kind: Any, error: BaseException | None, traceback: Any) -> None:
        structlog.get_logger().critical(
            Event.PROCESS_CRASHED, exc_info=(kind, error, traceback)
        )

    sys.excepthook = tell
    threading.excepthook = lambda given: tell(
        given.exc_type, given.exc_value, given.exc_traceback
    )


def log_prints() -> None:
    """Log whatever is printed, such as a traceback of billiard."""
    if not isinstance(sys.stdout, OwnLines):
        sys.stdout = OwnLines("stdout", sys.stdout)
        sys.stderr = OwnLines("stderr", sys.stderr)


def configure_scheduler_logs(settings: Settings) -> None:
    """Log as the settings say, including errors that end the process."""
    configure_logging(level=settings.log_level, log_format=settings.log_format)
    if is_json(settings.log_format, on_terminal=sys.stderr.isatty()):
        log_crashes()


def configure_worker_logs(settings: Settings) -> None:
    """Log as the scheduler does, from the first line; may be called twice."""
    stream = sys.__stderr__
    assert stream is not None  # Celery needs one, too
    configure_logging(
        level=settings.log_level, log_format=settings.log_format, stream=stream
    )
    if not is_json(settings.log_format, on_terminal=stream.isatty()):
        return
    log_crashes()
    log_prints()
    celery_worker.safe_say = _say
    celeryd_init.connect(_spare_banner)


def _spare_banner(instance: Any = None, **_arguments: object) -> None:
    """Suppress Celery's banner: our log lines say that the worker is ready."""
    instance.quiet = True


def _say(text: object, _stream: object = None) -> None:
    """Write *text* as a line, from a signal handler: no buffer, and no lock."""
    line = {
        "event": str(text).strip(),
        "logger": "celery.apps.worker",
        "level": "info",
        "timestamp": f"{read_host_clock().astimezone(UTC):%FT%T.%fZ}",
    }
    try:
        os.write(2, f"{json.dumps(line)}\n".encode())
    except OSError:
        return  # a full disk under the log must not end the process

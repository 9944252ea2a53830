"""
Render mail templates in separate processes, which a bad template may crash.

Tenants write templates. A dozen characters can take gigabytes or hours, in C code that
no sandbox interrupts. So render_child.py renders them under limits of the operating
system. Starting that process takes as long as a hundred mails, so it is kept for the
next template.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import IO

from models.errors import StepError
from operations.mail.message import Rendered, Template
from operations.mail.template import CPU_S, LONGEST, MEMORY_BYTES

#: Characters that all mails of a step may have together, because all are in memory
#: until the last is rendered: five thousand mails of 20,000 characters.
LONGEST_TOGETHER = 100_000_000

#: For one step, however busy the machine is; CPU time has a limit of its own.
DEADLINE = timedelta(minutes=2)

#: Bytes of an answer: two parts, with each character escaped as two surrogates.
_LONGEST_LINE = 2 * LONGEST * 12 + 100_000


class ChildRenderer:
    """Implements :class:`operations.ports.Renderer`; safe to share among threads."""

    def __init__(self, *, deadline: timedelta = DEADLINE, cpu_s: float = CPU_S) -> None:
        """Start nothing yet; *deadline* and *cpu_s* are for all mails of one step."""
        self._deadline_s = deadline.total_seconds()
        self._cpu_s = cpu_s
        self._idle: list[_Child] = []

    def render(
        self, template: Template, recipients: Sequence[Mapping[str, object]]
    ) -> list[Rendered]:
        """Render *template* for each of *recipients*, as the protocol says."""
        child = self._take()
        try:
            mails = list(self._talk(child, template, recipients))
        except BaseException:
            # It may still be rendering, and nobody waits for it any more.
            child.kill()
            raise
        self._idle.append(child)
        return mails

    def close(self) -> None:
        """End the processes that wait for the next template."""
        while self._idle:
            self._idle.pop().kill()

    def _take(self) -> _Child:
        with suppress(IndexError):
            while True:
                child = self._idle.pop()
                if child.is_alive():
                    return child
                child.kill()
        return _Child()

    def _talk(
        self,
        child: _Child,
        template: Template,
        recipients: Sequence[Mapping[str, object]],
    ) -> Iterator[Rendered]:
        length = 0
        with child.ending_after(self._deadline_s):
            child.ask(template, recipients, self._cpu_s)
            while True:
                answer = child.read()
                if answer is None:
                    raise self._explain_end(child, template)
                if "error" in answer:
                    raise StepError(str(answer["error"]), permanent=True)
                if "done" in answer:
                    return
                subject, text, html = map(answer.get, ("subject", "text", "html"))
                length += len(text or "") + len(html or "")
                if length > LONGEST_TOGETHER:
                    msg = (
                        f"template {template.name!r}: the {len(recipients):,} mails "
                        f"together are longer than {LONGEST_TOGETHER:,} characters. "
                        "Make them shorter, or send them to fewer recipients at once."
                    )
                    raise StepError(msg, permanent=True)
                yield Rendered(subject or "", text, html)

    def _explain_end(self, child: _Child, template: Template) -> StepError:
        """Say why the child has ended in the middle."""
        status, subject = child.wait(), f"template {template.name!r}"
        if status == -signal.SIGXCPU:
            msg = (
                f"{subject}: rendering it takes more than {self._cpu_s:g} s of CPU"
                " time. Use fewer or shorter loops."
            )
        elif child.is_overdue:
            msg = f"{subject}: it was not rendered within {self._deadline_s:g} s."
        elif status == -signal.SIGKILL:
            # Nobody knows by whom: perhaps the machine was short of memory.
            msg = f"{subject}: the process that rendered it was killed."
        else:
            msg = (
                f"{subject}: the process that rendered it crashed (status {status}); "
                f"its limit is {MEMORY_BYTES >> 20} MiB of memory."
            )
        is_killed = child.is_overdue or status == -signal.SIGKILL
        may_pass = is_killed and status != -signal.SIGXCPU
        return StepError(msg, permanent=not may_pass)


class _Child:
    """A process of render_child.py, and the pipes to it."""

    def __init__(self) -> None:
        # Nothing of our environment, because it contains secrets.
        environ = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self._process = subprocess.Popen(
            # -P: modules come from where ours come from, not from the working folder.
            [sys.executable, "-B", "-P", "-m", "operations.adapters.render_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environ,
            # Ctrl+C is for the worker, which lets it finish.
            start_new_session=True,
        )
        assert self._process.stdin is not None  # both are pipes, see above
        assert self._process.stdout is not None
        self._requests: IO[bytes] = self._process.stdin
        self._answers: IO[bytes] = self._process.stdout
        self.is_overdue = False

    @contextmanager
    def ending_after(self, seconds: float) -> Iterator[None]:
        """Kill it if it still works when the time is up."""
        timer = threading.Timer(seconds, self.end_overdue)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def ask(
        self,
        template: Template,
        recipients: Sequence[Mapping[str, object]],
        cpu_s: float,
    ) -> None:
        request = pickle.dumps((template, list(recipients), cpu_s))
        # If it is gone, there is no answer either.
        with suppress(BrokenPipeError):
            self._requests.write(request)
            self._requests.flush()

    def read(self) -> dict[str, str | None] | None:
        """Return its next answer; None if it has ended."""
        line = self._answers.readline(_LONGEST_LINE)
        if not line.endswith(b"\n"):
            return None
        answer: dict[str, str | None] = json.loads(line)
        return answer

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def wait(self) -> int:
        """Return its exit status; it has closed its output, so it ends soon."""
        try:
            return self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def end_overdue(self) -> None:
        self.is_overdue = True
        self._process.kill()

    def kill(self) -> None:
        self._process.kill()
        for pipe in (self._requests, self._answers):
            with suppress(BrokenPipeError):
                pipe.close()
        self._process.wait()

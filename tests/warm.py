"""
Processes that begin with what a scheduler and a worker load loaded already.

To load it takes most of what a test of processes takes. One process of each run of the
tests does so once, and forks for each that a test asks for; it runs the same module, in
its own environment, folder and group. `celery_app` is loaded by each itself, as it
reads its settings; so is whatever a test is about that starts a program cold.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

#: What they load, but for celery_app.
_LOADED = (
    *("celery.apps.worker", "celery.bin.celery", "celery.bin.worker"),
    *("celery.concurrency.prefork", "celery.worker.consumer", "kombu.transport.redis"),
    *("actions.own_actions", "actions.tick", "dispatch.dispatcher"),
    *("models.database.postgresql", "models.database.tables"),
    *("operations.rescue", "operations.running.attempt", "operations.steps"),
)

#: Loaded before any fork: prctl(2) tells the kernel what a parent's death means.
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1

_WAIT_EVERY_S = 0.02


def die_with_parent(stop_signal: signal.Signals) -> None:
    """Have Linux stop this process when the tests are killed and cannot do so."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(stop_signal))


class WarmProcess(subprocess.Popen[bytes]):
    """One of them, which is a child of the process that forks."""

    _child_created = False  # of this process, which is what Popen would look after

    def __init__(self, args: Sequence[str], pid: int) -> None:
        """Begin nothing: it runs."""
        self.args, self.pid, self.returncode = args, pid, None
        self.stdin = self.stdout = self.stderr = None

    def poll(self) -> int | None:
        """Return how it ended, if it has."""
        if self.returncode is None:
            status = _get_forker().ask({"wait": self.pid})
            if status is not None:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended."""
        give_up_at = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if give_up_at is not None and time.monotonic() > give_up_at:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            time.sleep(_WAIT_EVERY_S)
        return code

    def send_signal(self, sig: int) -> None:
        """Send it a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, sig)


def start_warm(
    command: Sequence[str], *, log: Path, environ: dict[str, str], cwd: Path
) -> WarmProcess:
    """Start ``python -m module ...`` or ``python script.py ...``."""
    assert command[0] == sys.executable
    log.touch()
    order = {
        "arguments": command[1:],
        "log": str(log),
        "environ": environ,
        "cwd": str(cwd),
    }
    return WarmProcess(command, _get_forker().ask(order))


class _Forker:
    """The process that forks, as those who ask it see it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # It would measure itself, and those who are forked would not measure anything.
        environ = {k: v for k, v in os.environ.items() if "COVERAGE" not in k}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.warm"],
            cwd=Path(__file__).parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environ,
            start_new_session=True,
        )
        atexit.register(self._end)

    def _end(self) -> None:
        self._process.communicate()

    def ask(self, order: dict[str, Any]) -> Any:
        """Return its answer."""
        pipes = self._process.stdin, self._process.stdout
        assert pipes[0] is not None
        assert pipes[1] is not None
        with self._lock:
            pipes[0].write(json.dumps(order).encode() + b"\n")
            pipes[0].flush()
            return json.loads(pipes[1].readline())


@cache
def _get_forker() -> _Forker:
    """Return that of this process; it ends with it, for its input ends then."""
    return _Forker()


def _take_orders() -> dict[str, Any] | None:
    """Fork for each order, and return it in the child; None at the end of them."""
    for line in sys.stdin:
        order: dict[str, Any] = json.loads(line)
        if "wait" in order:
            pid, status = os.waitpid(order["wait"], os.WNOHANG)
            answer = status if pid else None
        else:
            answer = os.fork()
            if answer == 0:
                return order
            # Both do it: neither who asked nor what is run may be the first without.
            with contextlib.suppress(PermissionError, ProcessLookupError):
                os.setpgid(answer, answer)
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()
    return None


def _run(order: dict[str, Any]) -> None:
    """Be the process that was ordered."""
    os.setpgid(0, 0)
    die_with_parent(signal.SIGTERM)
    for place, flags, numbers in (
        (os.devnull, os.O_RDONLY, (0,)),
        (order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, (1, 2)),
    ):
        opened = os.open(place, flags, 0o666)
        for number in numbers:
            os.dup2(opened, number)
        os.close(opened)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environ"])
    if any("COVERAGE_PROCESS" in name for name in os.environ):
        import_module("coverage").process_startup()
    first, *rest = order["arguments"]
    if first == "-m":
        sys.path[0] = order["cwd"]
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(order["cwd"], first).parent)
        sys.argv = [first, *rest]
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    for _name in _LOADED:
        import_module(_name)
    gc.collect()
    gc.freeze()
    if (_order := _take_orders()) is not None:
        _run(_order)

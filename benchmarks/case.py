"""
One case: one scheduler, so many schedules, so many of them due.

``python -m benchmarks.case register|run PEER REGISTERED DUE CAP``, in a process of
its own, so that memory and CPU are the scheduler's alone. ``run`` prints JSON.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.peers.peer import Peer
from benchmarks.servers import Servers, from_environment

#: By the name under which they are asked for: module and class.
PEERS = {
    "minutehand": ("minutehand", "Minutehand"),
    "minutehand-steps": ("minutehand", "MinutehandSteps"),
    "redbeat": ("beats", "RedBeat"),
    "apscheduler-3": ("apscheduler_3", "APScheduler3"),
    "django-celery-beat": ("beats", "DjangoBeat"),
    "celery-beat": ("beats", "CeleryBeat"),
    "huey": ("huey", "Huey"),
}

#: A scheduler is stopped after this; what it sent until then tells its rate.
CAP_S = 10.0

_AGAIN_S = 0.5

_IDLE_WAKES = 10


@dataclass
class Result:
    """
    What was measured; seconds since the due instant, and of CPU of the scheduler.

    Args:
        last_s: None: not all were sent before the scheduler was stopped.
        idle_wake_ms: One look around with nothing due.
        memory_mb: At its most.
    """

    peer: str
    registered: int
    due: int
    sent: int = 0
    first_s: float | None = None
    last_s: float | None = None
    per_s: float | None = None
    cpu_ms_each: float | None = None
    idle_wake_ms: float | None = None
    idle_cpu_ms_a_minute: float | None = None
    memory_mb: float = 0.0

    @property
    def guessed_last(self) -> str:
        """When the last would have been sent, at the rate until it was stopped."""
        return f"~{self.due / self.per_s:,.0f}" if self.per_s else "never"


class _CapReachedError(BaseException):
    """Not an Exception, so that no scheduler catches it."""


def make_peer(name: str, servers: Servers, registered: int, due: int) -> Peer:
    """Return the scheduler *name*; only its own libraries are imported."""
    module, kind = PEERS[name]
    peers = importlib.import_module(f"benchmarks.peers.{module}")
    peer: Peer = getattr(peers, kind)(servers, registered, due)
    return peer


def read_peak_memory() -> float:
    """Return the most memory this process had, in MB; Linux only."""
    # Not getrusage: what that tells is no less than what the parent process had.
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def _measure_sending(peer: Peer, result: Result, cap_s: float) -> None:
    def stop(*_arguments: object) -> None:
        raise _CapReachedError

    signal.signal(signal.SIGALRM, stop)
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.watch", peer.servers.redis, *peer.queues],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as watcher:
        assert watcher.stdout is not None  # a pipe was asked for
        watcher.stdout.readline()
        cpu_s, begin = time.process_time(), time.monotonic()
        # Again and again, for some catch whatever is raised while they submit a job.
        signal.setitimer(signal.ITIMER_REAL, cap_s, _AGAIN_S)
        try:
            peer.send_due()
        except _CapReachedError:
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        cpu_s = time.process_time() - cpu_s
        time.sleep(0.05)
        seen = json.loads(watcher.communicate("")[0])
    result.sent = seen[-1][1]
    if not result.sent:
        return
    result.first_s = seen[1][0] - begin
    result.per_s = result.sent / (seen[-1][0] - begin)
    result.cpu_ms_each = cpu_s / result.sent * 1000
    if result.sent >= peer.due:
        result.last_s = next(at for at, count in seen if count >= peer.due) - begin


def _measure_idling(peer: Peer, result: Result, cap_s: float) -> None:
    result.idle_wake_ms, cpu_ms = _repeat(peer.wake, cap_s)
    minute_ms = cpu_ms * peer.wakes_a_minute
    if peer.looks_a_minute:
        minute_ms += _repeat(peer.look, cap_s)[1] * peer.looks_a_minute
    result.idle_cpu_ms_a_minute = minute_ms


def _repeat(what: Callable[[], object], cap_s: float) -> tuple[float, float]:
    """Return the milliseconds of *what*, and those of CPU."""
    what()
    cpu_s, begin, times = time.process_time(), time.monotonic(), 0
    while times < _IDLE_WAKES and time.monotonic() - begin < cap_s:
        what()
        times += 1
    wall_s, cpu_s = time.monotonic() - begin, time.process_time() - cpu_s
    return wall_s / times * 1000, cpu_s / times * 1000


def main() -> None:
    what, name, registered, due, cap_s = sys.argv[1:]
    logging.basicConfig(level="ERROR")
    peer = make_peer(name, from_environment(), int(registered), int(due))
    if what == "register":
        peer.register()
        return
    result = Result(name, peer.registered, peer.due)
    peer.load()
    measure = _measure_sending if peer.due else _measure_idling
    measure(peer, result, float(cap_s))
    result.memory_mb = read_peak_memory()
    print(json.dumps(asdict(result)), flush=True)
    peer.close()
    os._exit(0)  # threads may have much left to send, and would be waited for


if __name__ == "__main__":
    main()

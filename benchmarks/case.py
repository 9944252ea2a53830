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
    "apscheduler": ("apscheduler_3", "APScheduler3"),
    "django-celery-beat": ("beats", "DjangoBeat"),
    "celery-beat": ("beats", "CeleryBeat"),
    "procrastinate": ("procrastinate", "Procrastinate"),
    "huey": ("huey", "Huey"),
    "rq-scheduler": ("rq_scheduler", "RqScheduler"),
    "periodiq": ("periodiq", "Periodiq"),
    "apscheduler-4": ("apscheduler_4", "APScheduler4"),
}

#: What they need that the tests do not.
LIBRARIES = {
    "redbeat": ("redbeat",),
    "apscheduler": ("apscheduler",),
    "django-celery-beat": ("django_celery_beat",),
    "procrastinate": ("procrastinate",),
    "huey": ("huey",),
    "rq-scheduler": ("rq_scheduler", "rq", "crontab"),
    "periodiq": ("dramatiq", "periodiq"),
    "apscheduler-4": ("apscheduler",),
}

#: Where ``make bench`` puts packages with a module that another has as well.
APART = str(Path(sys.prefix) / "apart")

#: Those who need them.
WITH_APART = ("rq-scheduler", "apscheduler-4")

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
        idle_wake_s: One look around with nothing due.
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
    idle_wake_s: float | None = None
    idle_cpu_ms_a_minute: float | None = None
    memory_mb: float = 0.0

    @property
    def estimated_last_s(self) -> float | None:
        """When the last would have been sent, at the rate until it was stopped."""
        return self.due / self.per_s if self.per_s else None


class _CapReachedError(BaseException):
    """Not an Exception, so that no scheduler catches it."""


def make_peer(name: str, servers: Servers, registered: int, due: int) -> Peer:
    """Return the scheduler *name*; only its own libraries are imported."""
    module, kind = PEERS[name]
    peers = importlib.import_module(f"benchmarks.peers.{module}")
    peer: Peer = getattr(peers, kind)(servers, registered, due)
    return peer


def measure(peer: Peer, result: Result, cap_s: float) -> None:
    """Load *peer* and fill in what it does when due, or while idle."""
    peer.load()
    if peer.due:
        _measure_sending(peer, result, cap_s)
    else:
        _measure_idling(peer, result, cap_s)
    result.memory_mb = read_peak_memory()


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
    where = [peer.servers.redis, *peer.queues]
    if peer.count_query:
        where = [peer.servers.dsn, peer.count_query]
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.watch", *where],
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
    result.idle_wake_s, cpu_s = _repeat(peer.wake, cap_s)
    minute_s = cpu_s * peer.wakes_a_minute
    if peer.looks_a_minute:
        _wall_s, cpu_s = _repeat(peer.look, cap_s)
        minute_s += cpu_s * peer.looks_a_minute
    result.idle_cpu_ms_a_minute = minute_s * 1000


def _repeat(what: Callable[[], object], cap_s: float) -> tuple[float, float]:
    """Return the seconds of *what*, and its seconds of CPU."""
    what()
    cpu_s, begin, times = time.process_time(), time.monotonic(), 0
    while times < _IDLE_WAKES and time.monotonic() - begin < cap_s:
        what()
        times += 1
    wall_s = time.monotonic() - begin
    return wall_s / times, (time.process_time() - cpu_s) / times


def main() -> None:
    """Register, or run and print."""
    what, name, registered, due, cap_s = sys.argv[1:]
    logging.basicConfig(level="ERROR")
    if name in WITH_APART:
        sys.path.insert(0, APART)
    peer = make_peer(name, from_environment(), int(registered), int(due))
    if what == "register":
        peer.register()
        return
    result = Result(name, int(registered), int(due))
    measure(peer, result, float(cap_s))
    print(json.dumps(asdict(result)), flush=True)
    peer.close()
    os._exit(0)  # threads may have much left to send, and would be waited for


if __name__ == "__main__":
    main()

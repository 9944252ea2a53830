"""
Servers that tests kill, freeze and start again: same port, same data.

What tests/servers.py runs ends with its process; these come back.
"""

from __future__ import annotations

import os
import platform
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import psutil

from tests.servers import (
    PATIENCE_S,
    accepts_sql,
    answers_ping,
    configure_pgbouncer,
    find_free_port,
    find_redis,
    is_listening,
    make_cluster,
    make_folder,
    run_process,
    run_warm,
    wait_until,
)


@dataclass
class Victim:
    """
    A server or another process that can be taken away, and come back.

    Args:
        name: For people.
        command: Starts it in the foreground.
        log: File for its output; its folder is the working directory if *cwd* is None.
        is_ready: Whether it answers.
        url: Of a server; the same after each start.
        user: Runs it. None: the current one.
        stop_signal: Asks it to stop in order.
        environ: Added to the environment.
        cwd: Working directory.
        is_warm: Whether it is one of those that ``run_warm`` runs.
    """

    name: str
    command: Sequence[str | Path]
    log: Path
    is_ready: Callable[[], bool] = lambda: True
    url: str = ""
    user: str | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    environ: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    is_warm: bool = False
    _stack: ExitStack = field(default_factory=ExitStack)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def is_alive(self) -> bool:
        """Whether it runs, frozen or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of the process that runs, or ran last."""
        assert self._process is not None  # it was started
        return self._process.pid

    def start(self) -> None:
        """Start it, and wait until it answers; does nothing if it runs."""
        if self.is_alive:
            return

        def is_up() -> bool:
            if not self.is_alive:
                # A killed PostgreSQL leaves shared memory for a moment.
                self._process = self._stack.enter_context(self._run())
            return self.is_ready()

        wait_until(is_up, every_s=0.1, what=self.name)

    def _run(self) -> AbstractContextManager[subprocess.Popen[bytes]]:
        if self.is_warm:
            return run_warm(
                [*map(str, self.command)],
                log=self.log,
                environ=self.environ,
                cwd=self.cwd or self.log.parent,
                stop_timeout_s=5,
            )
        return run_process(
            self.command,
            log=self.log,
            user=self.user,
            cwd=self.cwd or self.log.parent,
            stop_signal=self.stop_signal,
            stop_timeout_s=5,
            environ=self.environ,
        )

    def kill(self) -> None:
        """End it as a power cut does."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(PATIENCE_S)

    def ask(self, number: signal.Signals) -> None:
        """Send it, and not its children, a signal."""
        if self._process is not None and self.is_alive:
            self._process.send_signal(number)

    def stop(self) -> None:
        """End it in order."""
        self._stack.close()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start it, and end it in order after the block."""
        try:
            self.start()
            yield
        finally:
            self.stop()

    def freeze(self) -> None:
        """Let it accept connections, which the kernel does, and answer nothing."""
        frozen = self._signal_tree(signal.SIGSTOP)
        # The signal is sent, not obeyed: one thread of many may answer once more.
        wait_until(lambda: all(map(_is_stopped, frozen)), what=f"{self.name} frozen")

    def thaw(self) -> None:
        """Let it go on."""
        self._signal_tree(signal.SIGCONT)

    def _signal_tree(self, number: signal.Signals) -> list[int]:
        if self._process is None or not self.is_alive:
            return []
        # PostgreSQL's backends have sessions of their own.
        tree = [self._process.pid]
        with suppress(psutil.NoSuchProcess):  # it may end just now
            root = psutil.Process(self._process.pid)
            tree += [each.pid for each in root.children(recursive=True)]
        for pid in tree:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return tree


def _is_stopped(pid: int) -> bool:
    """Whether none of its threads runs: stopped, dead or gone."""
    with suppress(FileNotFoundError, ProcessLookupError):
        stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
        # "12 (name of any kind) T ...", proc(5).
        return all(text.rpartition(")")[2].split()[0] in "TtZX" for text in stats)
    return True


#: Debian's package libfaketime: what a clock says to whom it is loaded into.
FAKETIME = f"/usr/lib/{platform.machine()}-linux-gnu/faketime/libfaketime.so.1"


@dataclass(frozen=True)
class Clock:
    """
    The clock of a server, which can be set.

    Args:
        offset: A file that says how far it is from that of the machine.
    """

    offset: Path

    def set(self, by: timedelta) -> None:
        """Let it differ *by* so much from the machine's from now on."""
        # in one go: a file that is being written would be read as none
        new = self.offset.with_suffix(".new")
        new.write_text(f"{by.total_seconds():+.0f}\n")
        new.chmod(0o644)
        new.rename(self.offset)

    @property
    def environ(self) -> dict[str, str]:
        """What makes a process look at it; intervals go on by the machine's."""
        return {
            "LD_PRELOAD": FAKETIME,
            "FAKETIME_TIMESTAMP_FILE": str(self.offset),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DISABLE_SHM": "1",
        }


@contextmanager
def run_faulty_postgres(clock: Clock | None = None) -> Iterator[Victim]:
    """
    Run a PostgreSQL that loses nothing that it has committed when it is killed.

    Args:
        clock: What it takes for the time. None: what the machine does.
    """
    with make_folder("postgres") as folder:
        binaries, data, user = make_cluster(folder)
        port = find_free_port()
        url = f"postgresql+psycopg://minutehand@127.0.0.1:{port}/postgres"
        server = Victim(
            "PostgreSQL",
            [
                *(binaries / "postgres", "-D", data, "-p", str(port)),
                # The machine goes on, so its disk need not be waited for; but what
                # is committed must have left the process.
                *("-h", "127.0.0.1", "-c", "fsync=off", "-c", "synchronous_commit=on"),
                *("-c", "shared_buffers=64MB", "-c", "unix_socket_directories="),
                *("-c", "log_min_messages=fatal"),
            ],
            folder / "log",
            lambda: accepts_sql(port),
            url,
            user=user,
            stop_signal=signal.SIGINT,
            environ=clock.environ if clock else {},
        )
        with server.running():
            yield server


@contextmanager
def run_faulty_pgbouncer(postgres_url: str) -> Iterator[Victim]:
    """Run a PgBouncer that pools transactions before the database at *postgres_url*."""
    with make_folder("pgbouncer") as folder:
        made = configure_pgbouncer(folder, postgres_url, "default_pool_size = 10")
        server = Victim(
            "PgBouncer",
            made.command,
            folder / "log",
            lambda: is_listening(made.port),
            made.url,
            user=made.user,
        )
        with server.running():
            yield server


@contextmanager
def run_faulty_redis(*, persistent: bool = False) -> Iterator[Victim]:
    """
    Run a Redis.

    Args:
        persistent: Whether a restart finds again what was in it.
    """
    with make_folder("redis") as folder:
        port = find_free_port()
        url = f"redis://127.0.0.1:{port}/0"
        keep = "yes" if persistent else "no"
        server = Victim(
            "Redis",
            [
                *(find_redis(), "--port", str(port), "--bind", "127.0.0.1"),
                *("--dir", folder, "--save", "", "--appendonly", keep),
            ],
            folder / "log",
            lambda: answers_ping(port),
            url,
        )
        with server.running():
            yield server


@contextmanager
def run_blackhole(port: int = 0) -> Iterator[int]:
    """
    Accept connections on a port, which is given, read nothing and say nothing.

    Args:
        port: 0: a free one.
    """
    held: list[socket.socket] = []
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", port)) as listener:
        listener.settimeout(0.1)

        def accept() -> None:
            while not stop.is_set():
                with suppress(TimeoutError):
                    held.append(listener.accept()[0])

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            stop.set()
            thread.join()
            for each in held:
                each.close()

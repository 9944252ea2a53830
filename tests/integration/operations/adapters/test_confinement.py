"""What a process that handles a tenant's file can still open: Landlock, for real."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from operations.adapters.renderer import ChildRenderer
from operations.mail.message import Template
from tests.servers import ROOT, find_children

#: Tells what it may do, once it is confined.
_PROGRAM = """
import json, os, resource, socket, subprocess, sys
from pathlib import Path
from operations.adapters.confinement import confine

folder, secret, given, port = sys.argv[1:]
held = os.open(given, os.O_RDONLY)
known = confine(readable=[Path(f"/dev/fd/{held}")], writable=[Path(folder)])

def work():
    made = Path(folder) / "made"
    made.write_text("1")
    made.rename(Path(folder) / "moved").unlink()

def load():
    import polars
    polars.DataFrame({"a": [1]}).lazy().sink_parquet(Path(folder) / "a.parquet")
    assert polars.scan_parquet(Path(folder) / "a.parquet").collect().height == 1

tries = {
    "given": lambda: Path(f"/dev/fd/{held}").read_text(),
    "work": work,
    "polars": load,
    "secret": lambda: Path(secret).read_text(),
    "beside": lambda: Path(given).with_name("other").write_text("1"),
    "parent": lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes(),
    "program": lambda: subprocess.run([sys.executable, "-c", "1"], check=True),
    "multipath": lambda: socket.socket(type=socket.SOCK_STREAM, proto=262),
    "unix": lambda: socket.socket(socket.AF_UNIX),
    "pair": lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM),
    "fork": lambda: os.fork() or os._exit(0),
    "mode": lambda: os.chmod(secret, 0o644),
    "times": lambda: os.utime(secret, (1, 1)),
    "limit": lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CORE, (0, 0)),
    "priority": lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 19),
    "idle": lambda: os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0)),
    "attribute": lambda: os.setxattr(secret, "user.a", b"1"),
    "network": lambda: socket.create_connection(("127.0.0.1", int(port)), 5),
}
may = {}
for name, attempt in tries.items():
    try:
        attempt()
    except PermissionError:
        may[name] = False
    else:
        may[name] = True
print(json.dumps([known, may]))
"""


@pytest.fixture(scope="module", autouse=True)
def _landlock() -> None:
    """Need a kernel that knows it."""
    asks = "from operations.adapters.confinement import confine; print(confine())"
    done = subprocess.run(
        [sys.executable, "-c", asks],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    if done.stdout.strip() != "True":
        pytest.skip("this system has no Landlock")


def test_nothing_but_what_is_given_can_be_opened(tmp_path: Path):
    """No secret, no other process, no program, and no server."""
    folder, secret, given = (tmp_path / name for name in ("folder", "secret", "given"))
    folder.mkdir()
    secret.write_text("password")
    given.write_text("day,amount")
    with socket.create_server(("127.0.0.1", 0)) as server:
        places = (folder, secret, given, server.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, *map(str, places)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )

    assert done.returncode == 0, done.stderr
    known, may = json.loads(done.stdout)
    assert known
    assert {name for name, is_allowed in may.items() if is_allowed} == {
        *("given", "work", "polars")
    }


#: Is given a job, and tells what there is when it is confined.
_JOB = """
import os, sys
from operations.adapters.sources import ingest

def tell(**_):
    print(len(os.listdir("/proc/self/task")), "polars" in sys.modules, flush=True)
    os._exit(0)

ingest.confine = tell
ingest.main()
"""


def test_files_are_read_by_a_process_that_is_confined_first(tmp_path: Path):
    """A thread that was there before, of ours or of Polars, would keep all it has."""
    work = {"work": "file", "path": "a", "before": None, "target": str(tmp_path / "b")}
    done = subprocess.run(
        [sys.executable, "-c", _JOB],
        input=f"{json.dumps(work)}\n",
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == "1 False\n", done.stderr


def test_templates_are_rendered_by_a_confined_process():
    """Its status says that it gave up its rights."""
    renderer = ChildRenderer()
    renderer.render(Template("hello", "Hi", "Hi", None), [{}])
    (child,) = find_children("operations.adapters.render_child")
    status = Path(f"/proc/{child.pid}/status").read_text()
    renderer.close()

    assert "NoNewPrivs:\t1" in status
    assert "Seccomp:\t2" in status

"""What a lost child died of."""

from __future__ import annotations

from pathlib import Path

import pytest
from billiard.common import human_status

from celery_app.lost_children import Deaths


def lose(number: int) -> str:
    """Return what the pool says of a child that signal *number* killed."""
    return f"Worker exited prematurely: {human_status(-number)} Job: 7."


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.mark.parametrize(
    ("cgroup", "counter"),
    [
        ("0::/pod/worker\n", "sys/fs/cgroup/pod/worker/memory.events"),
        ("0::/\n", "sys/fs/cgroup/memory.events"),
        ("4:memory:/pod\n", "proc/vmstat"),
        ("", "proc/vmstat"),
    ],
)
def test_kernel_counts_kills_for_memory(tmp_path: Path, cgroup: str, counter: str):
    """Each is found once, wherever it is counted; no other killer is blamed on it."""
    write(tmp_path, "proc/self/cgroup", cgroup)
    write(tmp_path, "proc/vmstat", "oom_kill 99\n")
    write(tmp_path, counter, "low 0\noom_kill 3\n")
    deaths = Deaths(tmp_path)
    deaths.begin()

    by_hand = deaths.explain(lose(9))
    write(tmp_path, counter, "low 0\noom_kill 5\noom_group_kill 0\n")
    found = [deaths.explain(lose(9)) for _ in range(3)]

    assert by_hand is None
    assert ["out of memory", "out of memory", None] == found


def test_signal_9_counts_where_nobody_says(tmp_path: Path):
    """Most often it is the kernel."""
    deaths = Deaths(tmp_path)
    deaths.begin()

    assert deaths.explain(lose(9)) == "signal 9, most likely out of memory"


@pytest.mark.parametrize(
    ("number", "cause"),
    [(6, "signal 6, SIGABRT"), (11, "signal 11, SIGSEGV"), (15, None), (2, None)],
)
def test_crash_is_the_operations_own(tmp_path: Path, number: int, cause: str | None):
    """Polars aborts without memory; whoever asks a process to end is somebody else."""
    assert cause == Deaths(tmp_path).explain(lose(number))


def test_other_exits_are_no_kill(tmp_path: Path):
    """A child that ended by itself was not killed."""
    text = f"Worker exited prematurely: {human_status(1)} Job: 7."

    assert Deaths(tmp_path).explain(text) is None

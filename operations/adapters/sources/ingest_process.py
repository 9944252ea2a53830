"""Run ingest.py: one process for one source, ended when its time is up."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import operations
from models.errors import StepError
from models.units import format_bytes
from operations.domains import DomainLimits, Drift, Reached, Tell

#: Finds our packages where this one is, whether they are installed or not.
_PROGRAM = (
    f"import sys; sys.path.insert(0, {str(Path(operations.__file__).parents[1])!r}); "
    "from operations.adapters.sources.ingest import main; main()"
)

#: Seconds for a query to be canceled in its database, before the process is killed.
_GRACE_S = 3.0

#: The fields of a drift that JSON makes lists of.
_CHANGES = ("added", "removed", "retyped")

#: Seconds after which a listener is called although nothing was said.
_LISTEN_S = 1.0

#: Bytes of an answer, and of the last output of a process that died.
_LONGEST_ANSWER = 1 << 16

#: Parts of the messages of an allocator, or of a thread that cannot be started.
_OUT_OF_MEMORY = (
    *("memory allocation", "out of memory"),
    *("Cannot allocate", "MemoryError"),
)


def run_job(
    job: Mapping[str, object],
    *,
    limits: DomainLimits,
    environment: Mapping[str, str] | None,
    descriptors: Sequence[int],
    tell: Tell | None,
) -> tuple[int, Drift | None]:
    """
    Read a source in a process of its own, and write its rows to a file.

    Args:
        job: ``work`` ("convert" or "query") and what it needs. ``target``: the file; it
            does not exist yet, and scratch files beside it begin with its name.
            ``before``: the file of the version before, whose columns are compared;
            None: there is none. ``shown``: what messages call the source.
        limits: When ``time`` is over, the process is ended.
        environment: Environment of the process. It needs none of our settings, which
            contain secrets. None: our own environment.
        descriptors: Open files that *job* names as ``/dev/fd/N``.
        tell: Called about once a second; what it raises ends the process. None: nobody
            listens.

    Returns:
        How many rows were written, and how the columns differ from those before.

    Raises:
        StepError: Permanent if the content is bad or exceeds *limits*, temporary if the
            cause may pass.
        OSError: The file system failed.
    """
    shown = str(job["shown"])
    bounds = {**asdict(limits), "time": limits.time.total_seconds()}
    line = json.dumps({**job, "limits": bounds})
    with tempfile.TemporaryFile() as said:
        code, answer = _run(line, limits, environment, descriptors, said, tell)
        if answer is None:
            msg = (
                f"{shown}: reading it took longer than {limits.time} "
                "(MINUTEHAND_SOURCE_TIMEOUT)."
            )
            raise StepError(msg, permanent=False)
        if not answer:
            said.seek(max(0, said.tell() - _LONGEST_ANSWER))
            raise _explain_end(
                code, said.read().decode(errors="replace"), shown, limits
            )
    found: dict[str, Any] = json.loads(answer)
    if "rows" in found:
        return int(found["rows"]), _read_drift(found["drift"])
    if "permanent" in found:
        raise StepError(str(found["error"]), permanent=bool(found["permanent"]))
    if "memory" in found:
        raise _explain_memory(shown, limits)
    raise OSError(found["errno"], found["error"])


def _read_drift(found: Mapping[str, Any] | None) -> Drift | None:
    if found is None:
        return None
    changes = {name: tuple(map(tuple, found[name])) for name in _CHANGES}
    return Drift(**changes, more=found["more"])


def _run(
    line: str,
    limits: DomainLimits,
    environment: Mapping[str, str] | None,
    descriptors: Sequence[int],
    said: IO[bytes],
    tell: Tell | None,
) -> tuple[int, bytes | None]:
    """Return the exit code and the answer; the answer is None if it took too long."""
    give_up_at = time.monotonic() + limits.time.total_seconds()
    process = subprocess.Popen(
        # -P: nothing is imported from the working directory.
        # -B: on a full disk, Python would leave bytecode that is cut off, and every
        # process after this one would fail to import it.
        [sys.executable, "-B", "-P", "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=said,
        pass_fds=descriptors,
        env=environment,
        # Ctrl+C is for the worker, which decides whether to end this process.
        start_new_session=True,
    )
    # both are pipes
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        try:
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
        except BrokenPipeError:
            return _end(process), b""
        answer = _listen(process.stdout, give_up_at, tell)
        return (0 if answer is None else _end(process)), answer
    finally:
        _end(process)


def _listen(output: IO[bytes], give_up_at: float, tell: Tell | None) -> bytes | None:
    """Return the last line of *output*; None if it did not end in time."""
    line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        while len(line) < _LONGEST_ANSWER:
            left = give_up_at - time.monotonic()
            if left <= 0:
                return None
            reached = None
            if selector.select(min(left, _LISTEN_S)):
                more = os.read(output.fileno(), _LONGEST_ANSWER)
                if not more:
                    break
                # The lines before the last say how far it is.
                *ended, line = (line + more).split(b"\n")
                if not ended:
                    continue
                reached = Reached(**json.loads(ended[-1]))
            if tell is not None:
                tell(reached)
    return line


def _end(process: subprocess.Popen[bytes]) -> int:
    """End *process*, even in the middle of a query; return its exit code."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                # The end of standard input cancels what runs.
                pipe.close()
            except BrokenPipeError:
                continue
    try:
        return process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _explain_end(code: int, said: str, shown: str, limits: DomainLimits) -> StepError:
    """Return the error about a process that ended without an answer."""
    if any(words in said for words in _OUT_OF_MEMORY):
        return _explain_memory(shown, limits)
    if code == -signal.SIGKILL:
        msg = (
            f"{shown}: the process that read it was killed, perhaps because the "
            "machine ran out of memory."
        )
        return StepError(msg, permanent=False)
    last = said.strip().rpartition("\n")[2][:200]
    msg = f"{shown}: the process that read it exited with {code}: {last}"
    return StepError(msg, permanent=code < 0)


def _explain_memory(shown: str, limits: DomainLimits) -> StepError:
    msg = (
        f"{shown}: reading it takes more than {format_bytes(limits.memory)} of memory "
        "(MINUTEHAND_SOURCE_MAX_MEMORY). Read less, or ask the operator to raise the "
        "limit."
    )
    return StepError(msg, permanent=True)

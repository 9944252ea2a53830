"""What a web process does besides answering: bulk changes, in a thread of their own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from dispatch.bulk.runner import BulkRunner

#: How long the batch under way may take to end, in seconds; another process goes on
#: with the bulk change when the claim has run out.
_GRACE_S = 5


@contextmanager
def doing_bulk_changes(engine: sa.Engine) -> Iterator[None]:
    """Do the bulk changes that there are, until the block ends."""
    stop = threading.Event()
    runner = threading.Thread(
        target=BulkRunner(engine).run, args=(stop,), name="bulk", daemon=True
    )
    runner.start()
    try:
        yield
    finally:
        stop.set()
        runner.join(_GRACE_S)

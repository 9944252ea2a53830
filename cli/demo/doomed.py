"""
A worker that is killed in the middle of its work, as the demo shows it.

``python -m cli.demo.doomed DATABASE_URL`` is a process of its own, so that it can be
killed. It reads the id of an operation, claims it and begins its first step, as any
worker does, says so, and then works until the demo ends it.
"""

from __future__ import annotations

import socket
import sys
from datetime import timedelta
from uuid import UUID

from cli.connection import write_database
from models.database.engine import make_engine
from operations.claiming.claim import claim_operation
from operations.running.step_records import prepare_steps

#: As short as the demo is; workers take theirs for a minute, and renew it.
LEASE = timedelta(seconds=8)

#: What it says when it has begun.
BEGUN = "begun"


def main() -> None:
    """Claim what is asked for, begin it, and wait to be killed."""
    engine = make_engine(sys.argv[1])
    operation_id = UUID(sys.stdin.readline().strip())
    worker = f"doomed@{socket.gethostname()}"
    claim = claim_operation(engine, operation_id, worker=worker, lease=LEASE)
    if claim is None:
        sys.exit("the operation was taken by another worker")
    with write_database(engine) as connection:
        prepare_steps(connection, claim, tuple(claim.document["operations"]))
    sys.stdout.write(f"{BEGUN}\n")
    sys.stdout.flush()
    sys.stdin.read()  # ends with the demo, should that end first


if __name__ == "__main__":
    main()

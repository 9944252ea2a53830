"""
The heart of a worker process, which renews the leases of all that the process runs.

Also ``Worker``: all that such a process needs to run operations.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

import sqlalchemy as sa
import structlog

from models.errors import MinutehandError, UnreachableError
from operations.claiming.claim import give_back, renew
from operations.claiming.claimed import Claim
from operations.ports import Ports
from telemetry import Event

log = structlog.get_logger()


@dataclass(slots=True)
class Heart:
    """
    Renews the leases of all operations that this process runs, in one thread.

    Args:
        engine: Of this process.
        lease: How long a claim lasts after a renewal.
        every: Time between renewals; at most a third of *lease*.
    """

    engine: sa.Engine
    lease: timedelta
    every: timedelta
    _claims: dict[UUID, Claim] = field(default_factory=dict)
    _missing: set[UUID] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: threading.Event = field(default_factory=threading.Event)
    #: The thread starts with the first claim.
    _started: bool = False

    def add(self, claim: Claim) -> None:
        """Renew *claim* from now on."""
        with self._lock:
            self._claims[claim.token] = claim
            if not self._started:
                self._started = True
                self.start_beating()

    def start_beating(self) -> None:
        """Call ``beat`` in a moment, and again and again until stopped."""
        threading.Thread(target=self._run, name="operation-leases", daemon=True).start()

    def remove(self, claim: Claim) -> None:
        """Stop renewing *claim*."""
        with self._lock:
            self._claims.pop(claim.token, None)

    def stop(self) -> None:
        """Stop renewing, and give running operations back to other workers."""
        self._stopped.set()
        with self._lock:
            claims = list(self._claims.values())
            self._claims.clear()
        ids = [str(claim.operation_id) for claim in claims]
        for number, claim in enumerate(claims):
            try:
                given_back = give_back(self.engine, claim)
            except (MinutehandError, sa.exc.SQLAlchemyError) as error:
                # The other claims would fail in the same way, each after a wait.
                log.warning(
                    Event.OPERATIONS_NOT_GIVEN_BACK, ids=ids[number:], error=str(error)
                )
                return
            if given_back:
                log.info(Event.OPERATION_GIVEN_BACK, task_id=ids[number])

    def beat(self) -> None:
        """Renew all leases once; forget those that are no longer ours."""
        with self._lock:
            tokens = set(self._claims)
        try:
            ours = renew(self.engine, tokens, lease=self.lease)
        except (MinutehandError, sa.exc.SQLAlchemyError) as error:
            # The next beat tries again; the lease outlasts several.
            expected = isinstance(error, UnreachableError)
            log.warning(Event.HEARTBEAT_FAILED, error=str(error), exc_info=not expected)
            return
        with self._lock:
            # A claim that has just ended is missing, too, until ``remove`` is called.
            # So a claim counts as lost only if two beats in a row do not find it.
            lost = self._missing & (self._claims.keys() - ours)
            self._missing = tokens - ours
            for token in lost:
                gone = self._claims.pop(token)
                log.warning(Event.CLAIM_LOST, task_id=str(gone.operation_id))

    def _run(self) -> None:
        if self._stopped.wait(self.every.total_seconds()):
            return
        try:
            self.beat()
        finally:
            # Beat again even after an unexpected error, such as a full disk under the
            # log: otherwise all operations that run here would be taken from us.
            self.start_beating()


@dataclass(frozen=True, slots=True)
class Worker:
    """
    One process that runs operations.

    Args:
        engine: Made in this process: no connection survives a fork.
        ports: What the steps may use.
        heart: Renews the claims.
        node: What it is called. None: what Celery calls it.
        pid: Id of this process.
        monotonic: Returns seconds that never jump; measures durations.
    """

    engine: sa.Engine
    ports: Ports
    heart: Heart
    node: str | None = None
    pid: int = field(default_factory=os.getpid)
    monotonic: Callable[[], float] = time.monotonic

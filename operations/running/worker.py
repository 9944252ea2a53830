"""What a process needs to run operations: its engine, its ports, and its heart."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import sqlalchemy as sa

from operations.claiming.heart import Heart
from operations.ports import Ports


@dataclass(frozen=True, slots=True)
class Worker:
    """
    One process that runs operations.

    Args:
        engine: Made in this process: no connection survives a fork.
        ports: What the steps may use.
        heart: Renews the claims.
        lease: How long a claim lasts without a renewal.
        pid: Id of this process.
        monotonic: Returns seconds that never jump; measures durations.
    """

    engine: sa.Engine
    ports: Ports
    heart: Heart
    lease: timedelta
    pid: int = field(default_factory=os.getpid)
    monotonic: Callable[[], float] = time.monotonic

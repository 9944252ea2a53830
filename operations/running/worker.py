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
        engine: Of this process: no connection survives a fork.

        ports: To the world outside.

        heart: Renews what is claimed.

        lease: How long a claim holds without a renewal.

        pid: Of this process.

        monotonic: Seconds that never jump; only measures pauses.
    """

    engine: sa.Engine
    ports: Ports
    heart: Heart
    lease: timedelta
    pid: int = field(default_factory=os.getpid)
    monotonic: Callable[[], float] = time.monotonic

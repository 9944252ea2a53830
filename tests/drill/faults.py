"""Every fault of the drill, in the order in which they are done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.drill import (
    faults_broker,
    faults_mail,
    faults_neighbours,
    faults_platform,
    faults_processes,
)
from tests.chaos.case import Case
from tests.drill.world import World


@dataclass(frozen=True, slots=True)
class Fault:
    """
    Something that happens to an installation.

    Args:
        name: For ``--only``.

        title: For people.

        do: Does it, mends it, and notes in the case what was seen.

        is_late: Whether nobody may tick meanwhile; other ticks are late by no more
            than ``LATE``.
    """

    name: str
    title: str
    do: Callable[[World, Case], None]
    is_late: bool = False


FAULTS = (
    Fault("child", "a worker's child killed", faults_processes.kill_child),
    Fault("leader", "the leader killed", faults_processes.kill_leader, is_late=True),
    Fault("frozen", "the leader frozen", faults_processes.freeze_leader, is_late=True),
    Fault("deploy", "everything deployed anew", faults_processes.deploy),
    Fault("smtp-refuses", "SMTP refuses connections", faults_mail.refuse),
    Fault("smtp-defers", "SMTP says 451 to all", faults_mail.defer),
    Fault("smtp-drops", "SMTP drops in DATA", faults_mail.drop),
    Fault("smtp-hangs", "SMTP accepts and hangs", faults_mail.hang),
    Fault("flushall", "FLUSHALL", faults_broker.flush),
    Fault("restarts", "Redis restarted 3 times", faults_broker.restart),
    Fault("stranger", "a stranger's project", faults_neighbours.meet_project),
    Fault("second", "a second installation", faults_neighbours.meet_installation),
    Fault("poison", "hostile messages", faults_neighbours.poison),
    Fault("redis", "Redis away", faults_broker.take_away),
    Fault("grants", "a grant revoked", faults_platform.revoke, is_late=True),
    Fault("disk", "the disk full", faults_platform.fill_disk),
    Fault("worker", "a queue without worker", faults_processes.kill_worker),
    Fault("pooler", "PgBouncer away", faults_platform.stop_pooler, is_late=True),
    Fault(
        "clock",
        "the database's clock set back",
        faults_platform.set_clock_back,
        is_late=True,
    ),
    Fault(
        "postgres",
        "a minute without PostgreSQL",
        faults_platform.stop_database,
        is_late=True,
    ),
)

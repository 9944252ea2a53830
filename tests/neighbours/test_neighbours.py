"""
Other Celery projects on our Redis database or vhost: neither takes the other's tasks.
"""

from __future__ import annotations

from pathlib import Path

from tests.chaos.installation import Installation
from tests.neighbours.meeting import check_that_each_minds_its_own
from tests.neighbours.project import make_projects
from tests.neighbours.strangers import (
    check_that_strangers_stay,
    check_that_two_installations_do_not_mix,
)


def test_no_task_is_lost_and_remote_control_stays_at_home(
    installation: Installation,
) -> None:
    """
    Two projects, one of them with a default queue called like ours, and many tasks;
    a neighbour that tells all workers to stop stops its own.
    """
    projects = make_projects(installation.broker_url, installation.folder)

    check_that_each_minds_its_own(installation, projects)


def test_what_is_not_ours_stays_in_the_queue(installation: Installation) -> None:
    """Unknown tasks and others' messages go back; the rest is put aside."""
    check_that_strangers_stay(installation)


def test_two_installations_with_the_same_names_do_not_mix(
    installation: Installation, sqlite_url: str, tmp_path: Path
) -> None:
    """Each does its own operations, whoever gets the messages first."""
    folder = tmp_path / "second"
    folder.mkdir()
    second = Installation(sqlite_url, installation.broker_url, folder)

    check_that_two_installations_do_not_mix(installation, second)
    second.engine.dispose()

"""A Django project's own tasks and those that we send it, on one broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from models.database.engine import reading
from models.database.tables import operation_steps, operations
from operations.foreign_tasks import make_task_id
from tests.acceptance.test_celery_project import BEAT
from tests.acceptance.test_readme import Home
from tests.chaos.installation import Installation, make_worker_command
from tests.chaos.steps import EFFECTS
from tests.neighbours.django_site.tasks import is_to_fail
from tests.neighbours.meeting import record_runs
from tests.neighbours.project import make_site
from tests.servers import ROOT, run_warm, wait_until

#: Tasks of each side.
COUNT = 20


@contextmanager
def run_real_worker(installation: Installation) -> Iterator[None]:
    """Run a worker whose steps are ours, not those of the other tests."""
    environ = {k: v for k, v in installation.environ.items() if k != EFFECTS}
    with run_warm(
        make_worker_command("real", 2),
        log=installation.folder / "real.log",
        environ=environ,
        stop_timeout_s=5,
    ):
        yield


def test_no_task_is_lost_and_every_outcome_is_told(installation: Installation) -> None:
    """Theirs run as ever. Of ours each operation ends as its task does, and says so."""
    site = make_site(installation.broker_url, installation.folder)
    task = {
        "name": "site.report",
        "args": ["{{ operation.id }}"],
        "kwargs": {"due": "{{ scheduled_for }}"},
        "queue": site.queue,
        "wait": True,
    }
    uid = installation.add("report", operations={"run_task": task})
    ids = record_runs(installation, uid, COUNT)
    with site.worker(), run_real_worker(installation), installation.scheduler():
        site.send(COUNT)
        wait_until(
            lambda: installation.count_live() == 0 and len(site.fetch_done()) == COUNT,
            timeout_s=200,
            every_s=0.2,
            what="the tasks of both sides",
        )

    assert list(range(COUNT)) == site.fetch_done()
    failing = {each for each in ids if is_to_fail(str(each))}
    with reading(installation.engine) as connection:
        rows = {row.id: row for row in connection.execute(sa.select(operations))}
        steps = {
            row.operation_id: row
            for row in connection.execute(sa.select(operation_steps))
        }
    assert set(ids) == set(rows)
    for each in ids:
        if each in failing:
            assert "failed" == rows[each].state
            assert make_task_id(each) in rows[each].error
        else:
            assert "succeeded" == rows[each].state, rows[each]
            assert {"due", "at"} == set(steps[each].result["returned"])
    ran = [int(line.split()[1]) for line in read_lines(installation, "report")]
    assert sorted(each.int for each in set(ids) - failing) == sorted(ran)


def read_lines(installation: Installation, name: str) -> list[str]:
    """Return what tasks of this name have left."""
    path = installation.folder / "neighbours"
    lines = path.read_text().splitlines()
    return [line for line in lines if line.startswith(f"{name} ")]


def test_a_scheduler_takes_the_place_of_its_beat(
    redis_url: str, tmp_path: Path
) -> None:
    """As docs/celery-project.md says, with nothing else of ours."""
    site = make_site(redis_url, tmp_path)
    environ = {
        **site.environ,
        "PYTHONPATH": str(ROOT),
        "MINUTEHAND_WEB_ADDRESS": "none",
    }
    pasted = BEAT.replace("redis://redis:6379/0", redis_url)
    pasted = pasted.replace(
        "celery-beat shop ", "celery-beat tests.neighbours.django_site "
    )

    with site.worker():
        told = Home(tmp_path, environ).run(f"set -e -m\n{pasted}")

    assert {7} == set(site.fetch_done())  # once more, if an hour begins meanwhile
    assert "succeeded" in told

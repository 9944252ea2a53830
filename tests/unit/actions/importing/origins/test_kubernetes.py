"""CronJobs of Kubernetes, as their controller reads them (robfig/cron 3)."""

from __future__ import annotations

from typing import Any

import pytest

from actions.importing.origins.imported import ImportVerdict
from actions.importing.origins.kubernetes import (
    CronJob,
    fill_from_cron_job,
    read_cron_jobs,
)
from models.errors import InvalidDocumentError
from tests.unit.actions.importing.documents import get_step, get_when, import_one

TWO = b"""
apiVersion: v1
kind: List
items:
- kind: CronJob
  metadata: {name: report, namespace: shop}
  spec: {schedule: "0 7 * * 1-5", timeZone: Europe/Berlin}
- kind: ConfigMap
  metadata: {name: other}
---
kind: CronJob
metadata: {name: bare}
spec: {schedule: "@hourly"}
---
- just a list
"""


def import_job(**spec: Any) -> Any:
    given = {"schedule": "0 7 * * *", "timeZone": "UTC", **spec}
    return import_one(CronJob("it", "shop", given), fill_from_cron_job)


def test_all_cron_jobs_of_a_file_are_found():
    """
    In lists and in documents of their own; other kinds are passed over.
    """
    first, second = read_cron_jobs(TWO)

    assert first.title == "shop/report"
    assert second.title == "bare"


@pytest.mark.parametrize("text", [b"a: [", b"\x00", b"a: &a [*a]\n---\n]"])
def test_what_is_no_yaml_is_refused_with_its_line(text: bytes):
    """
    A file that cannot be read is no empty one.
    """
    with pytest.raises(InvalidDocumentError, match="not YAML"):
        read_cron_jobs(text)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("*/15 9-17 * * MON-FRI", {"cron_rule": "*/15 9-17 * * MON-FRI"}),
        ("0 12 ? * ?", {"cron_rule": "0 12 * * *"}),
        ("@daily", {"cron_rule": "0 0 * * *"}),
        ("0 0 1,15 * 5", {"cron_rule": "0 0 1,15 * 5"}),
        # a star with a step does not count as a star there, so either is enough
        ("0 0 1-31/2 * 5", {"cron_rule": "0 0 1-31/2 * 5"}),
        ("5/20 * * * *", {"cron_rule": "5/20 * * * *"}),
        ("@every 1h30m", {"every": "PT1H30M"}),
    ],
)
def test_schedules(schedule: str, expected: dict[str, str]):
    """
    Five fields, macros, question marks and @every.
    """
    assert {**expected, "timezone": "UTC"} == get_when(import_job(schedule=schedule))


def test_step_is_no_star_for_the_controller():
    """
    "*/2" of the month or Friday: either, where Debian's cron wants both.
    """
    rule = get_when(import_job(schedule="0 0 */2 * 5"))["cron_rule"]

    assert not rule.split()[2].startswith("*")


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("0 0 * * 7", "refuses '7'"),
        ("0 0 L * *", "refuses 'L'"),
        ("0 0 0 * * *", "five fields"),
        ("TZ=UTC 0 0 * * *", "timeZone"),
        ("0 0 5-1 * *", "refuses '5-1'"),
        ("@every 5s", "below a minute"),
        (5, "no schedule"),
        ("0 0 31 2 *", "never due"),
    ],
)
def test_what_cannot_be_says_why(schedule: Any, words: str):
    """
    What the cluster refuses, too, is told.
    """
    found = import_job(schedule=schedule)

    assert ImportVerdict.CANNOT_BE is found.verdict
    assert words in found.notes[0]


@pytest.mark.parametrize(
    ("policy", "overlap", "verdict"),
    [
        ("Allow", "allow", ImportVerdict.EXACT),
        ("Forbid", "skip", ImportVerdict.EXACT),
        ("Replace", "skip", ImportVerdict.DIFFERS),
    ],
)
def test_concurrency_policy_is_overlap(
    policy: str, overlap: str, verdict: ImportVerdict
):
    """
    Nothing here stops a run for the next one, and that is said.
    """
    found = import_job(concurrencyPolicy=policy)
    assert found.document is not None

    assert (found.document["overlap"], found.verdict) == (overlap, verdict)


@pytest.mark.parametrize(
    ("seconds", "catch_up"),
    [
        (None, {"runs": "latest"}),
        (3600, {"runs": "latest", "within": "PT1H"}),
        (200, None),
    ],
)
def test_deadline_is_catch_up(seconds: int | None, catch_up: Any):
    """
    Without a deadline the controller makes up for the last one; so do we.
    """
    found = import_job(startingDeadlineSeconds=seconds)
    assert found.document is not None

    assert found.document.get("catch_up") == catch_up


def test_suspended_job_and_its_task():
    """
    The task gets what names the CronJob, which stays as the template.
    """
    found = import_job(suspend=True)
    assert found.document is not None

    assert found.document["active"] is False
    assert get_step(found)["kwargs"] == {"name": "it", "namespace": "shop"}

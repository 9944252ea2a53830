"""CronJobs of Kubernetes, as their controller reads them (robfig/cron 3)."""

from __future__ import annotations

from typing import Any

import pytest

from actions.importing.origins.imported import Imported, ImportVerdict
from actions.importing.origins.kubernetes import KUBERNETES, read_cron_jobs
from models.errors import InvalidDocumentError
from tests.unit.actions.importing.documents import (
    get_document,
    get_step,
    get_when,
    import_one,
)

EXACT, DIFFERS = ImportVerdict.EXACT, ImportVerdict.DIFFERS

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


def import_job(**spec: Any) -> Imported:
    metadata = {"name": "it", "namespace": "shop"}
    given = {"schedule": "0 7 * * *", "timeZone": "UTC", **spec}
    return import_one({**given, "metadata": metadata}, KUBERNETES)


def test_cron_jobs_of_a_file():
    """Lists and documents beside one another; other kinds are not for us."""
    report, bare = read_cron_jobs(TWO)

    assert (report.name, bare.name) == ("shop/report", "bare")
    assert get_when(import_one(report, KUBERNETES)) == {
        "cron_rule": "0 7 * * 1-5",
        "timezone": "Europe/Berlin",
    }
    assert "no timeZone" in import_one(bare, KUBERNETES).notes[1]


@pytest.mark.parametrize(
    "text", [b"kind: [CronJob]", b"items: [1]", b"kind: List", b"{}", b"- 1", b""]
)
def test_what_is_no_job_is_left_out(text: bytes):
    """A file may hold whatever a cluster has."""
    assert read_cron_jobs(text) == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [(b"a: [", "line 1"), (b"\x00", "not YAML"), (b"x" * (9 << 20), "bytes")],
)
def test_what_is_no_yaml_is_refused(text: bytes, words: str):
    """With the place, so that it can be corrected."""
    with pytest.raises(InvalidDocumentError, match=words):
        read_cron_jobs(text)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("0 7 * * *", {"cron_rule": "0 7 * * *"}),
        ("@daily", {"cron_rule": "0 0 * * *"}),
        ("0 0 ? * sun", {"cron_rule": "0 0 * * sun"}),
        # a star with a step is no star to the controller, where Debian's wants both
        ("0 0 */2 * 5", {"cron_rule": "0 0 1-31/2 * 5"}),
        ("5/20 * * * *", {"cron_rule": "5/20 * * * *"}),
    ],
)
def test_schedules(schedule: str, expected: dict[str, str]):
    """Five fields, macros and question marks."""
    assert {**expected, "timezone": "UTC"} == get_when(import_job(schedule=schedule))


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("0 0 * * 7", "refuses '7'"),
        ("0 0 L * *", "refuses 'L'"),
        ("0 0 0 * * *", "five fields"),
        ("TZ=UTC 0 0 * * *", "timeZone"),
        ("0 0 5-1 * *", "refuses '5-1'"),
        ("@every 1h30m", '{"every": "PT1H30M"}'),
        (5, "no schedule"),
        ("0 0 31 2 *", "never due"),
    ],
)
def test_what_cannot_be_says_why(schedule: Any, words: str):
    """What the cluster refuses, too, is told."""
    found = import_job(schedule=schedule)

    assert ImportVerdict.CANNOT_BE is found.verdict
    assert words in found.notes[0]


@pytest.mark.parametrize(
    ("spec", "member", "value", "verdict"),
    [
        ({"concurrencyPolicy": "Allow"}, "overlap", "allow", EXACT),
        ({"concurrencyPolicy": "Forbid"}, "overlap", "skip", EXACT),
        # nothing here stops a run for the next one
        ({"concurrencyPolicy": "Replace"}, "overlap", "skip", DIFFERS),
        # without a deadline the controller makes up for the last one
        ({}, "catch_up", {"runs": "latest"}, EXACT),
        (
            {"startingDeadlineSeconds": 3600},
            "catch_up",
            {"runs": "latest", "within": "PT1H"},
            EXACT,
        ),
        ({"startingDeadlineSeconds": 300}, "catch_up", None, EXACT),
        # a start that late is given up there, and made here
        ({"startingDeadlineSeconds": 299}, "catch_up", None, DIFFERS),
        ({"startingDeadlineSeconds": 0}, "catch_up", None, DIFFERS),
        ({"suspend": True}, "active", False, EXACT),
    ],
)
def test_what_becomes_of_late_and_overlapping_runs(
    spec: dict[str, Any], member: str, value: Any, verdict: ImportVerdict
):
    """Each field of a CronJob has its member, and says where it is not the same."""
    found = import_job(**spec)

    assert (value, verdict) == (get_document(found).get(member), found.verdict)


def test_task_gets_what_names_the_job():
    """The CronJob stays, as the template."""
    assert get_step(import_job())["kwargs"] == {"name": "it", "namespace": "shop"}

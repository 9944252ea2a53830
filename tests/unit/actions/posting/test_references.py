"""What must fail, or wait, as the workers that run now are."""

from __future__ import annotations

import pytest

from actions.posting.references import FleetWorker, find_failing
from models.door.documents import read_action
from models.fields.addresses import is_refused
from tests.unit.models.documents import action

HOOK = {"call_webhook": {"url": "http://10.0.0.5/hook"}}
KNOWN = {
    "MINUTEHAND_WEBHOOK_SECRET": "not set",
    "MINUTEHAND_WEBHOOK_ALLOWED_HOSTS": "none",
}


def find(operations: object, *workers: FleetWorker) -> list[str]:
    """Return what is told of an action with these steps."""
    read = read_action(action(operations=operations))
    return [f"{each.pointer}: {each.message}" for each in find_failing(workers, read)]


def test_queue_that_nobody_takes_is_told():
    """
    If no worker runs at all, nobody can tell: it may be started later.

    A task alone is sent by the scheduler.
    """
    quick = FleetWorker("quick@host", ("quick",), {})

    assert [] == find({"publish": True})
    assert [] == find({"call_webhook": {"url": "https://example.com"}}, quick)
    assert [] == find({"run_task": {"name": "shop.report", "queue": "reports"}}, quick)
    assert [
        "/operations: no worker takes the queue 'heavy', so its runs would wait."
    ] == find({"publish": True}, quick)


def test_webhook_that_must_fail_is_told():
    """A worker says whether it has a secret, and where it may call."""
    worker = FleetWorker("quick@host", ("quick",), KNOWN)
    well = FleetWorker(
        "quick@host",
        ("quick",),
        {
            "MINUTEHAND_WEBHOOK_SECRET": "digest 00",
            "MINUTEHAND_WEBHOOK_ALLOWED_HOSTS": "hooks.shop, 10.0.0.0/8",
        },
    )

    told = find(HOOK, worker)

    assert 2 == len(told)
    assert "worker 'quick@host' has no secret to sign with" in told[0]
    assert "/call_webhook/url: 10.0.0.5 is not a public address" in told[1]
    assert [] == find(HOOK, well)


@pytest.mark.parametrize(
    ("host", "allowed", "refused"),
    [
        ("localhost", "none", True),
        ("127.0.0.1", "localhost", True),
        ("localhost", "localhost", False),
        ("::1", "none", True),
        ("93.184.216.34", "none", False),
        ("hooks.shop", "none", False),
        ("192.168.1.9", "192.168.1.9", False),
        ("192.168.1.9", "10.0.0.0/8,192.168.0.0/16", False),
    ],
)
def test_address_is_judged_without_looking_it_up(
    host: str, allowed: str, *, refused: bool
):
    """A name may lead anywhere, so only addresses are certain."""
    assert refused == is_refused(host, allowed.split(","))

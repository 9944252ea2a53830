"""notify, on fakes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Literal

import pytest

from models.errors import StepError
from operations.mail.message import Fate, Sending
from operations.ports import StepContext
from operations.recipients import User
from operations.steps.notify import notify
from tests.unit.operations.fakes import World

YES: Literal[True] = True
HOOK = "https://hooks.example.org/x"
FACTS: dict[str, Any] = {
    "kind": "failed",
    "was": "failed",
    "app": "sales",
    "zone": "Europe/Paris",
    "cause": "send_email: 550 no",
    "count": 400,
    "total": 400,
    "more": False,
    "first_at": "2026-11-23T06:00:00+00:00",
    "last_at": "2026-11-23T06:01:00+00:00",
    "actions": [
        {
            "uid": "weekly",
            "app": "sales",
            "name": "weekly",
            "count": 400,
            "occurrence": "2026-11-23T06:00:00+00:00",
        }
    ],
    "action_count": 1,
    "operations": ["3771f246-cc92-5326-b56a-8665f62de245"],
    "mail": ["ann@example.org", "bob@example.org"],
    "webhook": None,
}


def make_context(world: World, *, attempt: int = 1, **changes: Any) -> StepContext:
    context = world.make_context(attempt=attempt)
    return replace(context, details={"notice": {**FACTS, **changes}})


def test_each_address_gets_one_mail(world: World):
    """One mail to each, never one to all: nobody sees who else is told."""
    result = notify(make_context(world), YES)

    assert ["ann@example.org", "bob@example.org"] == world.mailer.addresses
    subjects = {mail.subject for mail in world.mailer.mails}
    assert {
        '[minutehand] sales: "weekly" failed (400 times): send_email: 550 no'
    } == subjects
    assert 2 == result["sent"]


def test_second_attempt_mails_nobody_twice(world: World):
    """Who was told in the first attempt is marked; the webhook is posted once."""
    deferred = Sending(Fate.DEFERRED, "mailbox full")
    world.mailer.outcomes["bob@example.org"] = [deferred]
    with pytest.raises(StepError, match="mailbox full"):
        notify(make_context(world, webhook=HOOK), YES)

    result = notify(make_context(world, webhook=HOOK, attempt=2), YES)

    assert ["ann@example.org", "bob@example.org"] == world.mailer.addresses
    assert 1 == len(world.webhooks.posts)
    assert (2, "200 OK") == (result["sent"], result["webhook"])


def test_refused_webhook_keeps_no_mail_back(world: World):
    """A wrong address of one is a warning if the others were told."""
    world.webhooks.answer = Sending(Fate.REFUSED, "410 Gone")

    result = notify(make_context(world, webhook=HOOK), YES)

    assert 2 == result["sent"]
    assert ["the request was not accepted: 410 Gone"] == result["warnings"]


@pytest.mark.parametrize(
    ("mail", "fate"), [([], Fate.REFUSED), (FACTS["mail"], Fate.UNREACHABLE)]
)
def test_webhook_that_fails_is_tried_again_if_that_can_help(
    world: World, mail: list[str], fate: Fate
):
    """Not after a refusal, if nobody else was told; the mails have gone meanwhile."""
    world.webhooks.answer = Sending(fate, "because")

    with pytest.raises(StepError, match="because") as caught:
        notify(make_context(world, mail=mail, webhook=HOOK), YES)

    assert (fate is Fate.REFUSED) == caught.value.permanent
    assert mail == world.mailer.addresses


def test_notice_is_in_the_language_of_its_reader(world: World):
    """If the address is that of a user with a locale; all others read English."""
    world.directory.users = (User("b", "bob@example.org", locale="fr-BE"),)

    notify(make_context(world), YES)

    ann, bob = world.mailer.mails
    assert '[minutehand] sales: "weekly" failed (400 times)' in ann.subject
    assert "a échoué (400 fois)" in bob.subject
    assert "400 opérations de l’application sales ont échoué" in (bob.text or "")
    assert "    minutehand operations show" in (bob.text or "")


@pytest.mark.parametrize(
    ("url", "key", "signed"),
    [("https://hooks.slack.com/services/x", "text", False), (HOOK, "type", True)],
)
def test_webhook_of_others_needs_no_signature(
    world: World,
    url: str,
    key: str,
    signed: bool,  # noqa: FBT001 - a column of the table
):
    """It is posted in the form of Slack; our own form is signed."""
    result = notify(make_context(world, mail=[], webhook=url), YES)

    [(posted_to, _, body)] = world.webhooks.posts
    assert url == posted_to
    assert key in json.loads(body)
    assert [signed] == world.webhooks.signed
    assert "200 OK" == result["webhook"]

"""A failure reaches somebody: a real worker, a real mail server, real rows."""

from __future__ import annotations

from actions.small_apps.apply import apply_small_app
from dispatch.upkeep import do_all
from models.door.app_documents import read_small_app_object
from scheduler_server import Scheduler
from tests.chaos.installation import Installation
from tests.database import write_by
from tests.mail_server import MailServer
from tests.scheduling import add_app, make_operation, post, record_all
from tests.servers import wait_until

#: Operations that fail for one cause.
MANY = 5

MAIL = {"send_email": {"template": "weekly"}}


def send_all(scheduler: Scheduler) -> None:
    """Do what the leader does between two ticks."""
    # Its lease may have run out meanwhile.
    wait_until(scheduler.leader.hold, what="the lease")
    do_all(scheduler.dispatcher.send_waiting)


def test_failures_of_one_cause_are_one_mail(
    installation: Installation, smtp_server: MailServer
) -> None:
    """To the app's address alone: the recipients of the action get none."""
    installation.options["SMTP_URL"] = smtp_server.url
    engine = installation.engine
    add_app(engine, ids=["ada"])
    asked = {"uid": "app", "notices": {"mail": ["ops@example.org"]}}
    write_by(engine, apply_small_app, read_small_app_object(asked))
    uid = post(engine, uid="daily", operations=MAIL, recipients={"groups": ["all"]}).uid
    ids = record_all(engine, *(make_operation(number) for number in range(MANY)))
    scheduler = Scheduler.make(installation.settings)

    with installation.worker():
        send_all(scheduler)
        for each in ids:
            installation.wait_until_final(each)
        for _ in range(3):
            send_all(scheduler)
            scheduler.noticer.look()
        send_all(scheduler)
        wait_until(lambda: smtp_server.messages, what="the notice")
    scheduler.stop()

    (told,) = smtp_server.messages
    assert "ops@example.org" == told["To"]
    cause = "send_email: small app 'app' has no"
    assert f'app: "daily" failed ({MANY} times): {cause}' in told["Subject"]
    assert f"minutehand operations list --action {uid} --state failed" in (
        told.get_content()
    )

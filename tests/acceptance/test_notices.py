"""A failure reaches somebody: a real worker, a real mail server, real rows."""

from __future__ import annotations

import sqlalchemy as sa

from actions.small_apps.apply import apply_small_app
from dispatch.upkeep import do_all
from models.database.engine import writing
from models.database.tables import notices, operations
from models.door.app_documents import read_small_app_object
from models.operation_state import OperationState, Trigger
from operations.cancel_and_retry import reopen
from scheduler_server import Scheduler, make_scheduler
from tests.chaos.installation import Installation
from tests.database import fetch_rows, write_by
from tests.mail_server import MailServer
from tests.scheduling import MINUTE, add_app, get, make_operation, post, record_all
from tests.servers import wait_until

#: Operations that fail for one cause.
MANY = 100

MAIL = {"send_email": {"template": "weekly"}}


def apply_app(installation: Installation, **parts: object) -> None:
    model = read_small_app_object({"uid": "app", **parts})
    write_by(installation.engine, apply_small_app, model)


def count_final(installation: Installation) -> int:
    return fetch_rows(
        installation.engine,
        sa.select(sa.func.count()).where(
            operations.c.trigger != Trigger.NOTICE,
            operations.c.finished_at.is_not(None),
        ),
    ).scalar_one()


def send_all(scheduler: Scheduler) -> None:
    """Do what the leader does between two ticks."""
    # Its lease may have run out meanwhile.
    wait_until(scheduler.leader.hold, what="the lease")
    do_all(scheduler.dispatcher.send_waiting)


def test_many_failures_of_one_cause_are_one_mail_and_one_when_over(
    installation: Installation, smtp_server: MailServer
) -> None:
    """
    A hundred failures are one mail to the app's address; a success is another.

    The recipients of the action get neither.
    """
    installation.options["SMTP_URL"] = smtp_server.url
    engine = installation.engine
    add_app(engine, ids=["ada"])
    apply_app(installation, notices={"mail": ["ops@example.org"]})
    uid = post(engine, uid="daily", operations=MAIL, recipients={"groups": ["all"]}).uid
    ids = record_all(engine, *(make_operation(number) for number in range(MANY)))
    scheduler = make_scheduler(installation.settings)

    with installation.worker():
        send_all(scheduler)
        wait_until(lambda: count_final(installation) == MANY, what="failures")
        for _ in range(3):
            send_all(scheduler)
            scheduler.noticer.look()
        send_all(scheduler)
        wait_until(lambda: smtp_server.messages, what="the notice")

        # What was wrong is mended, and the last one is tried again, a while later.
        apply_app(installation, templates={"weekly": {"subject": "Hi", "text": "Hi"}})
        last = max(ids, key=lambda each: get(engine, each).occurrence)
        with writing(engine) as connection:
            connection.execute(
                sa.update(notices).values(last_at=notices.c.last_at - 10 * MINUTE)
            )
            assert reopen(connection, last)
        send_all(scheduler)
        row = installation.wait_until_final(last)
        assert OperationState.SUCCEEDED == row.state, row.error
        for _ in range(3):
            send_all(scheduler)
            scheduler.noticer.look()
        send_all(scheduler)
        wait_until(lambda: len(smtp_server.messages) == 3, what="the end")
    scheduler.stop()

    told = [m for m in smtp_server.messages if m["To"] == "ops@example.org"]
    assert ["ada@example.org"] == [
        message["To"].addresses[0].addr_spec
        for message in smtp_server.messages
        if message not in told
    ]
    failed, recovered = told
    assert (
        f"app: \"daily\" failed ({MANY} times): send_email: small app 'app' has no"
        in (failed["Subject"])
    )
    assert f"minutehand operations list --action {uid} --state failed" in (
        failed.get_content()
    )
    assert 'app: "daily" works again' in recovered["Subject"]

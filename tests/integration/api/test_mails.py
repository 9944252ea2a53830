"""Mails over HTTP: listed, read, sent again."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from models.database.tables import changes, templates
from models.operation_state import MailState
from models.role import Role
from operations.claiming.claim import claim_operation
from operations.mail.delivery_marks import DeliveryMarks
from operations.mail.message import Mail
from tests.database import execute, fetch_rows
from tests.integration.api.conftest import APP, OTHER, Web
from tests.scheduling import add_revision, edit, get, make_operation, record_all

OURS, THEIRS = make_operation(0), make_operation(1)
STEP = "send_email"


@pytest.fixture(autouse=True)
def _mailed(web: Web) -> None:
    """Give both apps an operation that sent one mail, lost one, and failed with one."""
    engine = web.engine
    add_revision(engine, operations={"send_email": {"template": "hello"}})
    record_all(engine, OURS, THEIRS)
    for operation, app in ((OURS, APP), (THEIRS, OTHER)):
        edit(engine, operation.id, app=app)
        claim = claim_operation(engine, operation.id, worker="w")
        assert claim is not None
        marks = DeliveryMarks(engine, claim, STEP)
        for recipient in ("ann", "ben", "cat"):
            text = f"Hello {recipient} of {app}"
            marks.start(recipient, Mail("i@m", "a@b", "", "Greetings", text, "<p>"))
        marks.end("ann", MailState.SENT)
        marks.end("ben", MailState.UNCERTAIN, "lost")
        marks.end("cat", MailState.FAILED, "550")
        edit(engine, operation.id, state="succeeded", claim_token=None)


def test_mail_is_read_as_it_was_sent(web: Web):
    """By who may read its operation."""
    found = web.get(f"/mails/{OURS.id}/{STEP}/ann", role=Role.VIEWER).json()

    sent = {"subject": "Greetings", "text": f"Hello ann of {APP}", "html": "<p>"}
    assert sent.items() <= found.items()
    headers = {each["name"]: each["value"] for each in found["headers"]}
    assert f"<{found['message_id']}>" == headers["Message-ID"]
    shown = {"From": "minutehand@localhost", "Subject": "Greetings"}
    assert shown.items() <= headers.items()


def test_count_must_be_as_expected(web: Web, engine: sa.Engine):
    """A filter that matches more than one thinks would mail people for nothing."""
    dry = web.post("/mails/resend", {"dry_run": True}, role=Role.OPERATOR)
    none = web.post("/mails/resend", {}, role=Role.OPERATOR)
    wrong = web.post("/mails/resend", {"expected_count": 2}, role=Role.OPERATOR)

    assert {"matched": 1, "changed": 0, "refused": {}, "dry_run": True} == dry.json()
    assert 422 == none.status_code
    assert "/expected_count" == none.json()["errors"][0]["pointer"]
    assert 409 == wrong.status_code
    assert "1 mail matches, and 2 were expected" in wrong.json()["detail"]
    assert "succeeded" == get(engine, OURS.id).state


@pytest.fixture
def _templates(web: Web) -> None:
    """Give the app a template."""
    text = {"subject": "For you", "text": "Hi {{ user.id }}"}
    execute(web.engine, sa.insert(templates).values(app=APP, name="report", **text))


@pytest.mark.usefixtures("_templates")
def test_template_is_mailed_to_be_looked_at(web: Web, tmp_path: Path):
    """To a user of the app, with a mark in its subject; it is on record."""
    answer = web.post("/mails/test", {"template": "report", "to": "ada"})

    assert 200 == answer.status_code
    told = {"outcome": "sent", "subject": "[Test] For you", "text": "Hi ada"}
    assert told.items() <= answer.json().items()
    (mail,) = (tmp_path / "mails").glob("**/*.eml")
    assert "[Test] For you" in mail.read_text()
    query = sa.select(changes.c.app, changes.c.change, changes.c.after)
    (noted,) = fetch_rows(web.engine, query.where(changes.c.kind == "mail"))
    assert (APP, "tested", {"template": "report", "to": "ada"}) == noted

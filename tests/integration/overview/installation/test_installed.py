"""What is installed, and what somebody who helps from afar may see."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import sqlalchemy as sa

from actions.pausing.queues import pause_queue
from models.database.engine import Author, writing
from models.json_form import write_json
from models.operation_state import Queue
from models.requests.notes import PauseModel
from overview.doctor.examine import find_trouble
from overview.installation.installed import fetch_installed, make_bundle
from tests.database import read_by
from tests.integration.api.prepared import prepare
from tests.presence import give_sign, make_worker
from tests.scheduling import get_now, make_settings, put

SECRET = "hunter2"
SETTINGS = make_settings(
    BROKER_URL=f"redis://:{SECRET}@127.0.0.1:1/0",
    NOTICE_MAIL="ada@Qshopq.example",
    METRICS_APPS="Qshopq",
    APP_BOUNDS='{"Qshopq": {"actions": 100}}',
    TASK_CONNECTIONS="Qshopq=redis://127.0.0.1:1/1",
    TASK_RULES='{"Qshopq": {"apps": ["Qshopq"]}}',
    OIDC_ISSUER="http://127.0.0.1:1",
    OIDC_CLIENT_ID="minutehand",
    OIDC_GROUPS='{"Qshopq": {"shop": "viewer"}}',
)


def test_bundle_has_nothing_of_a_tenant_and_no_secret(
    engine: sa.Engine, tmp_path: Path
):
    """An app of which everything has its mark leaves none in it, and it stays small."""
    prepare(engine, tmp_path, "shop", "Qshopq", is_documented=True)
    give_sign(engine, make_worker())
    with writing(engine, author=Author("Qshopq")) as connection:
        pause_queue(connection, Queue.QUICK, PauseModel(note="Qshopq asked"))
    findings = list(find_trouble(engine, SETTINGS))
    text = write_json(read_by(engine, make_bundle, SETTINGS, findings))

    assert "Qshopq" not in text
    assert "of app shop" not in text
    assert SECRET not in text
    assert "redis://127.0.0.1:1/0" in text
    assert len(text) < 200_000


def test_failures_have_their_reason_and_nobodys_words(engine: sa.Engine):
    """What a server said stays behind the colon."""
    error = "no such table ada"
    now, reason = get_now(engine), f"step failed: {error}"
    made = put(engine, state="failed", reason=reason, error=error, finished_at=now)
    bundle = read_by(engine, make_bundle, SETTINGS, [])

    (failure,) = bundle.failures
    assert (made, "step failed") == (failure.id, failure.reason)
    assert "ada" not in write_json(bundle)


def test_installation_tells_versions_and_what_is_kept(engine: sa.Engine):
    """With the oldest row of each kind."""
    old = get_now(engine) - timedelta(days=3)
    put(engine, recorded_at=old)
    found = read_by(engine, fetch_installed, SETTINGS)

    names = {"postgresql": "PostgreSQL", "sqlite": "SQLite"}
    assert found.versions["database"].startswith(names[engine.dialect.name])
    assert "Redis" == found.versions["broker"]
    kept = {each.what: each for each in found.retention}
    operations = kept["operations, their steps and logs"]
    assert (30 * 86_400, old) == (operations.kept_for_s, operations.oldest_at)
    assert kept["record of changes"].kept_for_s is None

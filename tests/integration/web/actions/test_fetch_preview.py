"""When stored actions run next, on both databases."""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from actions.pausing.pause_and_resume import pause_action
from actions.posting.post import delete_action
from actions.previews.preview import Preview
from models.errors import InvalidDocumentError
from models.requests.notes import PauseModel
from tests.database import read_by, write_by
from tests.scheduling import MONDAY, add_app, edit_action, get_now, post
from web.actions.fetch_preview import preview_stored

TOKYO = ZoneInfo("Asia/Tokyo")
PARIS = {"cron_rule": "30 2 * * *", "timezone": "Europe/Paris"}


@pytest.fixture(autouse=True)
def _action(engine: sa.Engine) -> None:
    """Give every test an action that clock changes touch."""
    add_app(engine)
    post(engine, uid="nightly", when=PARIS)


def preview(engine: sa.Engine, uid: str = "nightly") -> Preview:
    return read_by(engine, preview_stored, uid, count=10, viewer_zone=TOKYO)


def test_those_of_a_paused_action_begin_after_its_pause(engine: sa.Engine):
    """If it has no end, there are none, and the notes do not blame the rule."""
    until = get_now(engine) + timedelta(days=30)
    write_by(engine, pause_action, "nightly", PauseModel(until=until))
    paused = preview(engine)
    write_by(engine, pause_action, "nightly", as_it_is=False)
    held = preview(engine)

    assert until < paused.occurrences[0].at < until + timedelta(days=2)
    assert paused.notes[0].startswith("Paused until 20")
    assert ((), "Paused until somebody resumes it.") == (
        held.occurrences,
        held.notes[0],
    )
    assert not any("Never" in note for note in held.notes)


def test_an_action_that_does_not_run_shows_none(engine: sa.Engine):
    """Inactive, in quarantine, deleted: the notes say which."""
    post(engine, uid="other", name="other", when=PARIS, active=False)
    inactive = preview(engine, "other")
    edit_action(engine, "nightly", quarantined_at=MONDAY, quarantine_reason="no zone")
    bad = preview(engine)
    edit_action(engine, "nightly", quarantined_at=None)
    write_by(engine, delete_action, "nightly")
    deleted = preview(engine)

    assert [(), (), ()] == [each.occurrences for each in (inactive, bad, deleted)]
    assert ["Not active", "In quarantine", "Deleted at 20"] == [
        found.notes[0][: len(words)]
        for found, words in (
            (inactive, "Not active"),
            (bad, "In quarantine"),
            (deleted, "Deleted at 20"),
        )
    ]


def test_what_takes_effect_later_is_not_due_before(engine: sa.Engine):
    """As the tick does not look at it before."""
    later = get_now(engine) + timedelta(days=90)
    edit_action(engine, "nightly", effective_from=later)

    assert later <= preview(engine).occurrences[0].at


def test_what_cannot_be_read_is_said(engine: sa.Engine):
    """A rule of a zone that is gone."""
    edit_action(engine, "nightly", timing='{"when":[{"timezone":"Mars/Base"}]}')

    with pytest.raises(InvalidDocumentError):
        preview(engine)

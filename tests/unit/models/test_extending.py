"""Documents that name what packages add."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import jsonschema
import pytest
from pydantic import Field

from actions.occurrences import parse_timing
from actions.previews.sentences import describe
from models.door.action_schema import make_action_schema
from models.door.app_documents import read_small_app
from models.door.documents import (
    action_document,
    make_timing,
    read_action,
    timing_text,
)
from models.errors import InvalidDocumentError, RuleError
from models.extending import InstalledSource, InstalledStep
from models.installed import INSTALLED, Packages, Refusal
from models.operation import order_steps
from models.operation_state import Queue
from models.when import InstalledWhen

NOW = datetime(2026, 11, 22, tzinfo=UTC)
CRON = {"cron_rule": "0 7 * * *", "timezone": "UTC"}


class Archive(InstalledStep):
    """Takes a folder."""

    is_heavy = True
    folder: str = Field(examples=["old"])


class Bell(InstalledStep):
    """Takes nothing."""


class Bucket(InstalledSource):
    """Takes a key."""

    key: str = Field(min_length=1)


class Hourly(InstalledWhen):
    """Due each hour, at a minute; 99 answers with nonsense."""

    hourly: int

    def next_from(self, local: datetime) -> datetime | None:
        """Return the next such minute."""
        if self.hourly == 99:
            return local - timedelta(seconds=1)
        if self.hourly == 98:
            return local.replace(tzinfo=None)
        found = local.replace(minute=self.hourly, second=0, microsecond=0)
        return found if found >= local else found + timedelta(hours=1)


PACKAGES = Packages(
    steps={"bell": Bell, "archive": Archive},
    sources={"bucket": Bucket},
    whens={"hourly": Hourly},
    origins={("step", "archive"): "extras 1.0"},
)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install PACKAGES."""
    monkeypatch.setattr(INSTALLED, "_found", PACKAGES)


def make(operations: object, when: object = CRON) -> str:
    return json.dumps({"name": "x", "operations": operations, "when": when})


def find_problems(text: str) -> list[tuple[str, str]]:
    with pytest.raises(InvalidDocumentError) as caught:
        read_action(text)
    return [(each.pointer, each.message) for each in caught.value.problems]


@pytest.mark.usefixtures("installed")
def test_steps_of_packages_are_read_and_written() -> None:
    """
    They follow those that are built in, by name; true stands for {}, false for nothing.
    """
    asked = {"bell": True, "archive": {"folder": "a"}, "publish": True}

    action = read_action(make(asked))
    written = action_document(action)

    assert ("publish", "archive", "bell") == action.operations.step_names
    assert Archive(folder="a") == action.operations.arguments_of("archive")
    assert {"archive": {"folder": "a"}, "bell": {}}.items() <= dict(
        written["operations"]  # type: ignore[arg-type]
    ).items()
    assert action == read_action(json.dumps(written))
    assert ("bell",) == read_action(
        make({"bell": "yes", "archive": False})
    ).operations.step_names
    assert ("publish", "archive", "bell") == order_steps(asked)


@pytest.mark.usefixtures("installed")
def test_package_says_which_queue_its_step_needs() -> None:
    """
    What shares the staging of its app is heavy.
    """
    heavy, quick = {"archive": {"folder": "a"}}, {"bell": True}

    assert Queue.HEAVY == read_action(make(heavy)).operations.queue
    assert Queue.QUICK == read_action(make(quick)).operations.queue


@pytest.mark.usefixtures("installed")
def test_problems_have_their_places_and_our_words() -> None:
    """
    Those of packages and of what is built in are told together.
    """
    asked = {"archive": {"foldr": "a"}, "refresh": 5, "bel": True}

    assert [
        ("/operations/archive/foldr", "'foldr' is not a known key."),
        ("/operations/archive/folder", "'folder' is missing."),
        ("/operations/refresh", "5 does not say which domains to refresh."),
        ("/operations/bel", "'bel' is not a known key."),
    ] == find_problems(make(asked))


@pytest.mark.usefixtures("installed")
def test_action_that_asks_for_no_step_is_refused() -> None:
    """
    Also if the one that is named is switched off.
    """
    (problem,) = find_problems(make({"bell": False}))

    assert ("/operations", "No step is requested.") == problem


def test_without_packages_their_names_are_typos() -> None:
    """
    Nothing else changes for who installs nothing.
    """
    (step,) = find_problems(make({"archive": {}, "publish": True}))
    (when,) = find_problems(make({"publish": True}, {"hourly": 5}))

    assert ("/operations/archive", "'archive' is not a known key.") == step
    assert ("/when/hourly", "'hourly' is not a kind of time or event.") == when


def test_package_that_was_refused_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    With the reason, wherever its name stands; other names are typos as before.
    """
    refused = Packages(
        refusals=tuple(
            Refusal("extras 1.0", name, what, "it cannot be loaded: ImportError: x")
            for what, name in (("step", "bell"), ("when", "hourly"), ("source", "tape"))
        )
    )
    monkeypatch.setattr(INSTALLED, "_found", refused)
    app = {"uid": "a", "domains": [{"name": "d", "source": {"tape": {}}}]}

    with pytest.raises(InvalidDocumentError) as posted:
        read_action(make({"bell": True, "bel": 1}, [CRON, {"hourly": 5}]))
    with pytest.raises(InvalidDocumentError) as applied:
        read_small_app(json.dumps(app))

    said = "Package extras 1.0 cannot add it: it cannot be loaded: ImportError: x"
    assert {
        "/operations/bell": said,
        "/when/1/hourly": said,
        "/domains/0/source/tape": said,
    } == {
        each.pointer: each.hint
        for each in (*posted.value.problems, *applied.value.problems)
        if "extras" in each.hint
    }


def test_schema_accepts_what_is_installed() -> None:
    """
    Its steps and rules, alone and in a list; without packages, they are typos.
    """
    documents = [
        json.loads(make({"archive": {"folder": "a"}, "bell": True})),
        json.loads(make({"publish": True}, {"hourly": 5})),
        json.loads(make({"publish": True}, [CRON, {"hourly": 5, "timezone": "UTC"}])),
    ]
    own = jsonschema.Draft202012Validator(make_action_schema())
    extended = jsonschema.Draft202012Validator(make_action_schema(PACKAGES))

    assert not any(own.is_valid(each) for each in documents)
    for each in documents:
        extended.validate(each)
    assert not extended.is_valid(json.loads(make({"bel": True})))


@pytest.mark.usefixtures("installed")
def test_rule_of_a_package_is_due_as_any_other() -> None:
    """
    Alone and in a list, and stored as one text; in words by its fields.
    """
    action = read_action(
        make({"bell": True}, [{"hourly": 5, "timezone": "Europe/Paris"}, CRON])
    )
    timing = make_timing(action, created_at=NOW, holidays={})
    assert timing is not None
    schedule = parse_timing(timing_text(timing))

    assert NOW + timedelta(minutes=5) == schedule.next_from(NOW)
    assert NOW + timedelta(hours=7) == schedule.next_from(
        NOW + timedelta(hours=6, minutes=6)
    )
    assert "Hourly 5, Europe/Paris; also every day at 07:00, UTC" == describe(action)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("minute", "why"), [(99, "is before it"), (98, "no time with")]
)
def test_rule_that_answers_with_nonsense_is_named(minute: int, why: str) -> None:
    """
    The tick puts its action into quarantine with this reason.
    """
    schedule = parse_timing(f'{{"when":[{{"hourly":{minute},"timezone":"UTC"}}]}}')

    with pytest.raises(RuleError, match=why) as caught:
        schedule.next_from(NOW)

    assert "Hourly answered" in str(caught.value)


def test_stored_rule_whose_package_is_gone_says_so() -> None:
    """
    The reason of its quarantine says what to do, not how to spell.
    """
    with pytest.raises(RuleError) as caught:
        parse_timing('{"when":[{"hourly":5,"timezone":"UTC"}]}')

    assert (
        "is a kind that is built in or installed here. "
        "Install the package that adds it where this program runs."
    ) in str(caught.value)


@pytest.mark.usefixtures("installed")
def test_two_kinds_in_one_rule_are_refused() -> None:
    """
    As two of those that are built in are.
    """
    ((pointer, message),) = find_problems(make({"bell": True}, {"hourly": 5, **CRON}))

    assert "/when" == pointer
    assert "'cron_rule' and 'hourly' cannot be in one object" in message


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("source", "pointer", "message"),
    [
        ({"bucket": {"key": ""}}, "/domains/0/source/bucket/key", "'' is empty."),
        (
            {"bucket": {"key": "a"}, "file": "a.csv"},
            "/domains/0/source",
            "found 'file' and 'bucket'",
        ),
        (
            {"bucket": {"key": "a"}, "format": "csv"},
            "/domains/0/source",
            "'bucket' says it itself",
        ),
    ],
)
def test_source_of_a_package_is_judged_as_any_other(
    source: dict[str, Any], pointer: str, message: str
) -> None:
    """
    It stands alone, and its own problems have their places.
    """
    text = json.dumps({"uid": "a", "domains": [{"name": "d", "source": source}]})

    with pytest.raises(InvalidDocumentError) as caught:
        read_small_app(text)

    (problem,) = caught.value.problems
    assert (pointer, True) == (problem.pointer, message in problem.message)


@pytest.mark.usefixtures("installed")
def test_source_of_a_package_is_stored_as_it_was_written() -> None:
    """
    Below the name of its kind.
    """
    given = {"bucket": {"key": "a"}}
    text = json.dumps({"uid": "a", "domains": [{"name": "d", "source": given}]})

    (domain,) = read_small_app(text).domains or ()

    assert given == domain.source.as_json()

"""Who gets a mail."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.operation import RecipientFilterModel, Standing
from operations.recipients import User, judge, keeps_triggering_user, resolve

NOW = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)

#: The four kinds of user there are.
KINDS = {
    "active": User("active", "a@x", activated_at=LONG_AGO),
    "inactive": User("inactive", "b@x", activated_at=LONG_AGO, disabled=True),
    "inactivated": User("inactivated", "c@x"),
    "both": User("both", "d@x", disabled=True),
}

FLAGS = (
    "include_inactivated_users",
    "include_inactive_users",
    "only_inactivated_users",
    "only_inactive_users",
)

#: Who is kept, by flags: i = include_inactivated, I = include_inactive,
#: o = only_inactivated, O = only_inactive. Written by hand from the rule.
TRUTH = {
    "": "active",
    "i": "active inactivated",
    "I": "active inactive",
    "iI": "active inactive inactivated both",
    "o": "inactivated",
    "io": "inactivated",
    "Io": "inactivated both",
    "iIo": "inactivated both",
    "O": "inactive",
    "iO": "inactive both",
    "IO": "inactive",
    "iIO": "inactive both",
    "oO": "inactive inactivated both",
    "ioO": "inactive inactivated both",
    "IoO": "inactive inactivated both",
    "iIoO": "inactive inactivated both",
}


def make_filter(letters: str) -> RecipientFilterModel:
    flags = dict(
        zip(
            FLAGS,
            ("i" in letters, "I" in letters, "o" in letters, "O" in letters),
            strict=True,
        )
    )
    return RecipientFilterModel(groups=("all",), **flags)


def test_truth_table_is_complete():
    """The table has all sixteen combinations of the four flags."""
    combinations = {
        "".join(letter for letter, on in zip("iIoO", which, strict=True) if on)
        for which in product((False, True), repeat=4)
    }

    assert combinations == set(TRUTH)


@pytest.mark.parametrize("letters", TRUTH)
def test_flags_keep_whom_the_table_says(letters: str):
    """Each combination of flags keeps exactly the kinds of user of its row."""
    found = resolve(make_filter(letters), KINDS.values(), now=NOW)

    assert sorted(TRUTH[letters].split()) == [user.id for user in found.users]


def test_docs_have_the_same_truth_table():
    """Each row of the table in docs/recipients.md is a row of the table here."""
    text = Path("docs/recipients.md").read_text()
    rows = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 8 and cells[0] in {"yes", "–"}:
            letters = "".join(
                letter
                for letter, cell in zip("iIoO", cells[:4], strict=True)
                if cell == "yes"
            )
            rows[letters] = " ".join(
                kind
                for kind, cell in zip(KINDS, cells[4:], strict=True)
                if cell == "mail"
            )

    assert rows == TRUTH


def test_account_that_expires_now_is_inactive():
    """The instant of expiry belongs to the time after it."""
    user = User("u", "u@x", activated_at=LONG_AGO, expires_at=NOW)
    second_before = NOW - timedelta(seconds=1)

    states = [user.is_inactive(now=second_before), user.is_inactive(now=NOW)]

    assert [False, True] == states


def test_user_not_seen_for_years_is_kept():
    """Inactive never means "not seen lately"."""
    user = User("u", "u@x", activated_at=LONG_AGO, last_seen_at=LONG_AGO)

    found = resolve(RecipientFilterModel(users=("u",)), [user], now=NOW)

    assert (user,) == found.users


def test_named_inactive_user_is_dropped():
    """Being named by id does not get around the flags."""
    who = RecipientFilterModel(users=("inactive",))

    found = resolve(who, KINDS.values(), now=NOW)

    assert () == found.users


def test_unknown_names_are_warnings():
    """A typo in a user or group is told, each once, users first."""
    who = RecipientFilterModel(users=("nobody", "active"), groups=("ghosts", "all"))

    found = resolve(who, KINDS.values(), now=NOW)

    assert (
        "There is no user 'nobody' in this small app.",
        "There is no group 'ghosts' in this small app, or nobody is in it.",
    ) == found.warnings


GROUPED = User("u", "u@x", groups=frozenset({"g"}), activated_at=LONG_AGO)


@pytest.mark.parametrize(
    ("who", "user", "kept"),
    [
        (None, KINDS["inactivated"], True),
        (RecipientFilterModel(), GROUPED, True),
        (RecipientFilterModel(), KINDS["inactive"], False),
        (RecipientFilterModel(only_inactivated_users=True), GROUPED, False),
        (RecipientFilterModel(groups=("all",)), GROUPED, True),
        (RecipientFilterModel(groups=("g",)), GROUPED, True),
        (RecipientFilterModel(groups=("other",)), GROUPED, False),
        (RecipientFilterModel(users=("somebody",)), GROUPED, False),
    ],
)
def test_recipients_of_event_actions_are_a_filter(
    who: RecipientFilterModel | None, user: User, *, kept: bool
):
    """The triggering user is kept or not; nobody else ever gets the mail."""
    found = resolve(who, [user, *KINDS.values()], now=NOW, triggering=user.id)

    assert kept == keeps_triggering_user(who, user, now=NOW)
    assert ({user.id} if kept else set()) == {user.id for user in found.users}


@pytest.mark.parametrize("kind", ["inactive", "both"])
def test_without_recipients_a_closed_account_gets_no_mail(kind: str):
    """The operation is made, for it may do more than mail; the mail is a warning."""
    user = KINDS[kind]

    found = resolve(None, [user], now=NOW, triggering=user.id)

    assert keeps_triggering_user(None, user, now=NOW)
    warning = f"The account of the triggering user {user.id!r} is not active."
    assert ((), (warning,)) == (found.users, found.warnings)


def test_closed_accounts_get_mails_that_ask_for_them():
    """Flags alone, without users and groups, judge the account."""
    who = RecipientFilterModel(
        include_inactive_users=True, include_inactivated_users=True
    )

    found = resolve(who, KINDS.values(), now=NOW, triggering="both")

    assert (KINDS["both"],) == found.users


def test_app_without_users_has_nothing_to_warn_of():
    """Nobody gets the mail; that is no matter of a name."""
    found = resolve(RecipientFilterModel(groups=("all",)), [], now=NOW)

    assert ((), ()) == (found.users, found.warnings)


def test_triggering_user_who_was_deleted_is_a_warning():
    """A user deleted after the event gets nothing, and the operation says so."""
    found = resolve(None, [], now=NOW, triggering="u")

    assert ("The triggering user 'u' does not exist any more.",) == found.warnings


times = st.none() | st.datetimes(
    min_value=datetime(2020, 1, 1),  # noqa: DTZ001 - hypothesis adds the zone
    max_value=datetime(2030, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
users = st.builds(
    User,
    id=st.sampled_from("abcdef"),
    email=st.just("x@x"),
    groups=st.frozensets(st.sampled_from(["g", "h"])),
    disabled=st.booleans(),
    expires_at=times,
    activated_at=times,
)
filters = st.builds(
    RecipientFilterModel,
    users=st.lists(st.sampled_from("abcdefz")).map(tuple),
    groups=st.lists(st.sampled_from(["all", "g", "h", "z"])).map(tuple),
    include_inactivated_users=st.booleans(),
    include_inactive_users=st.booleans(),
    only_inactivated_users=st.booleans(),
    only_inactive_users=st.booleans(),
)


@given(filters, st.lists(users, unique_by=lambda user: user.id))
def test_resolution_is_ordered_and_unique(
    who: RecipientFilterModel, everybody: list[User]
):
    """Whatever the order users come in, the outcome is sorted and unique."""
    found = resolve(who, everybody, now=NOW)
    ids = [user.id for user in found.users]

    assert sorted(set(ids)) == ids
    assert found == resolve(who, reversed(everybody), now=NOW)


def test_judgement_says_why():
    """What keeps a user out, or lets them in."""
    everybody = RecipientFilterModel(groups=("all",))
    only = RecipientFilterModel(groups=("all",), only_inactive_users=True)
    few = RecipientFilterModel(users=("a@x",), groups=("g",))

    def say(
        who: RecipientFilterModel | None, kind: str, *, on_event: bool = False
    ) -> Standing:
        return judge(who, KINDS[kind], now=NOW, on_event=on_event)

    assert Standing.IN_GROUP is say(everybody, "active")
    assert Standing.INACTIVE is say(everybody, "both")
    assert Standing.INACTIVATED is say(everybody, "inactivated")
    assert Standing.NOT_ONLY is say(only, "active")
    assert Standing.NAMED is say(few, "active")
    assert Standing.NOT_NAMED is say(few, "inactive")
    assert Standing.NOBODY is say(None, "active")
    assert Standing.TRIGGERS is say(None, "active", on_event=True)
    assert Standing.INACTIVE is say(None, "inactive", on_event=True)

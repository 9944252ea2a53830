"""send_email, on fakes."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

import pytest

from models.errors import CanceledError, StepError
from models.operation import RecipientFilterModel, SendEmailModel
from models.operation_state import MailState
from operations.mail.message import Fate, Letterhead, Sending, Template
from operations.operation_log import LogLevel
from operations.recipients import User
from operations.steps.send_mails import send_email
from tests.unit.operations.fakes import FakeProgress, World

ASKED = SendEmailModel(template="hello")
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def make_user(user_id: str, name: str = "Toco") -> User:
    return User(user_id, f"{user_id}@x.org", name=name, activated_at=LONG_AGO)


@pytest.fixture
def world(world: World) -> World:
    """Give three users, a template, and everybody as recipients."""
    world.directory.users = tuple(map(make_user, "abc"))
    world.directory.templates["hello"] = Template(
        "hello",
        "Hello {{ user.name }}",
        "{{ app.name }}: {{ action.name }}",
        "<p>{{ user.name }}</p>",
    )
    world.recipients = RecipientFilterModel(groups=("all",))
    return world


def test_each_recipient_gets_one_mail(world: World):
    """In the order of their ids, marked before and after, as the app writes them."""
    world.directory.letterhead = Letterhead("Shop", reply_to="help@x.org")

    result = send_email(world.make_context(), ASKED)

    assert 3 == result["sent"]
    assert ["a@x.org", "b@x.org", "c@x.org"] == world.mailer.addresses
    assert "Demo: weekly update" == world.mailer.mails[0].text
    assert {world.directory.letterhead} == {m.letterhead for m in world.mailer.mails}
    assert [
        (user_id, state)
        for user_id in "abc"
        for state in (MailState.SENDING, MailState.SENT)
    ] == world.deliveries.journal


def test_mail_left_sending_is_never_sent_again(world: World):
    """What a dead worker left as ``sending`` is reported, not repeated."""
    world.deliveries.marks |= {"a": MailState.SENT, "b": MailState.SENDING}

    result = send_email(world.make_context(attempt=2), ASKED)

    assert ["c@x.org"] == world.mailer.addresses
    assert (2, ["b"]) == (result["sent"], result["uncertain"])
    assert MailState.UNCERTAIN == world.deliveries.marks["b"]


def test_connection_that_breaks_in_the_content_is_uncertain(world: World):
    """A mail that may have left counts as neither sent nor failed."""
    world.mailer.outcomes["b@x.org"] = [Sending(Fate.UNCERTAIN, "broken pipe")]

    result = send_email(world.make_context(), ASKED)

    assert (2, ["b"]) == (result["sent"], result["uncertain"])
    assert MailState.UNCERTAIN == world.deliveries.marks["b"]


@pytest.mark.parametrize("fate", Fate)
def test_no_mail_that_was_tried_stays_marked_as_sending(world: World, fate: Fate):
    """Whatever became of it, the next attempt knows."""
    world.mailer.outcomes["a@x.org"] = [Sending(fate, "so it is")]

    with suppress(StepError):
        send_email(world.make_context(), ASKED)

    assert MailState.SENDING != world.deliveries.marks["a"]


def test_refused_address_does_not_keep_the_others_back(world: World):
    """A wrong address is in the result, and the others get their mail."""
    world.mailer.outcomes["a@x.org"] = [Sending(Fate.REFUSED, "550 unknown")]

    result = send_email(world.make_context(), ASKED)

    assert [{"user": "a", "error": "550 unknown"}] == result["failed"]
    assert 2 == result["sent"]


def test_step_fails_if_every_address_is_refused(world: World):
    """A step that reached nobody is no success."""
    for letter in "abc":
        world.mailer.outcomes[f"{letter}@x.org"] = [Sending(Fate.REFUSED, "550")]

    with pytest.raises(StepError, match="every mail was refused") as caught:
        send_email(world.make_context(), ASKED)

    assert caught.value.permanent


def test_dead_server_stops_the_step_at_once(world: World):
    """A server that is away costs one deadline, not one for each recipient."""
    world.mailer.outcomes["a@x.org"] = [
        Sending(Fate.UNREACHABLE, "refused", blames_server=True)
    ]

    with pytest.raises(StepError) as caught:
        send_email(world.make_context(), ASKED)

    assert not caught.value.permanent
    assert {"a": MailState.FAILED} == world.deliveries.marks


def test_recipients_are_frozen_across_attempts(world: World):
    """Who joins between two attempts gets nothing; who left is a warning."""
    world.mailer.outcomes["a@x.org"] = [
        Sending(Fate.UNREACHABLE, "refused", blames_server=True)
    ]
    with pytest.raises(StepError):
        send_email(world.make_context(), ASKED)
    world.directory.users = tuple(map(make_user, "acd"))

    result = send_email(world.make_context(attempt=2), ASKED)

    assert ["a@x.org", "c@x.org"] == world.mailer.addresses
    assert ["User 'b' was deleted meanwhile."] == result["warnings"]


def test_changed_address_is_used(world: World):
    """The ids are frozen, not the addresses."""
    world.memo["recipients"] = {"ids": ["a"], "warnings": []}
    world.directory.users = (User("a", "new@x.org"),)

    send_email(world.make_context(attempt=2), ASKED)

    assert ["new@x.org"] == world.mailer.addresses


def test_unknown_names_and_missing_addresses_are_warnings(world: World):
    """They are told in the result and fail nothing."""
    world.directory.users = (make_user("a"), User("n", "", activated_at=LONG_AGO))
    world.recipients = RecipientFilterModel(users=("x",), groups=("all",))

    result = send_email(world.make_context(), ASKED)

    assert [
        "There is no user 'x' in this small app.",
        "User 'n' has no email address.",
    ] == result["warnings"]


def test_event_operation_writes_to_its_user(world: World):
    """Without recipients the triggering user alone gets the mail."""
    world.recipients, world.user_id = None, "b"

    send_email(world.make_context(), ASKED)

    assert ["b@x.org"] == world.mailer.addresses


def test_action_without_recipients_warns(world: World):
    """Nobody to write to is a warning."""
    world.recipients = None

    result = send_email(world.make_context(), ASKED)

    assert (0, ["The action names no recipients."]) == (
        result["sent"],
        result["warnings"],
    )


def test_missing_template_is_permanent_and_names_what_exists(world: World):
    """A typo in the template says what there is."""
    with pytest.raises(StepError, match=r"no template 'helo'.*'hello'") as caught:
        send_email(world.make_context(), SendEmailModel(template="helo"))

    assert caught.value.permanent


def test_template_that_fails_for_the_last_reaches_nobody(world: World):
    """All mails are rendered before the first leaves."""
    world.directory.templates["hello"] = Template(
        "hello", "x", "{{ 1 / (user.name | length) }}", None
    )
    world.directory.users = (make_user("a"), make_user("b", name=""))

    with pytest.raises(StepError, match="division by zero") as caught:
        send_email(world.make_context(), ASKED)

    assert caught.value.permanent
    assert ([], {}) == (world.mailer.mails, world.deliveries.marks)


def test_message_ids_are_the_same_in_each_attempt_and_differ_by_user(world: World):
    """A mail server or a person can spot a repetition."""
    send_email(world.make_context(), ASKED)
    world.deliveries.marks.clear()

    send_email(world.make_context(attempt=2), ASKED)

    ids = [mail.message_id for mail in world.mailer.mails]
    assert ids[:3] == ids[3:]
    assert 3 == len(set(ids))


def test_cancellation_stops_between_mails(world: World):
    """Canceled before the second mail, one has left."""
    world.progress = FakeProgress(cancel_at=2)

    with pytest.raises(CanceledError):
        send_email(world.make_context(), ASKED)

    assert ["a@x.org"] == world.mailer.addresses


def test_log_has_counts_and_warnings(world: World):
    """Whom it left out is a warning; how many mails ended how is one line."""
    world.recipients = RecipientFilterModel(users=("a", "nobody"))
    send_email(world.make_context(), ASKED)
    refusal = Sending(Fate.REFUSED, "550 no such user")
    world.mailer.outcomes["b@x.org"] = [refusal]
    world.recipients = RecipientFilterModel(users=("a", "b", "c"))
    world.memo.clear()
    send_email(world.make_context(), ASKED)

    assert [
        (LogLevel.WARNING, "There is no user 'nobody' in this small app."),
        (LogLevel.INFO, "1 mail: 1 sent"),
        (LogLevel.WARNING, "3 mails: 1 sent, 1 sent in an earlier attempt, 1 refused"),
    ] == world.log.lines


BROKEN = Sending(Fate.UNREACHABLE, "closed")


def test_recipient_at_whom_the_server_breaks_off_stops_nobody(world: World):
    """The others get their mails, in each attempt; that one is tried again."""
    world.mailer.outcomes["a@x.org"] = [BROKEN, BROKEN]

    for attempt in (1, 2):
        with pytest.raises(StepError, match="1 of 3 mails was put off") as caught:
            send_email(world.make_context(attempt=attempt), ASKED)

        assert not caught.value.permanent
        assert ["b@x.org", "c@x.org"] == world.mailer.addresses
        assert MailState.FAILED is world.deliveries.marks["a"]


@pytest.mark.parametrize(
    ("broken", "lost"),
    [(BROKEN, []), (Sending(Fate.UNCERTAIN, "closed"), [*"abc"])],
    ids=["unreachable", "uncertain"],
)
def test_server_that_breaks_off_at_everybody_stops_the_step(
    world: World, broken: Sending, lost: list[str]
):
    """
    Three times in a row is no matter of one recipient.

    What was not begun is not uncertain: the next attempt sends it.
    """
    world.directory.users = tuple(map(make_user, "abcde"))
    world.mailer.outcomes |= {f"{letter}@x.org": [broken] for letter in "abc"}

    with pytest.raises(StepError, match="broke off at 3 mails in a row: closed") as e:
        send_email(world.make_context(), ASKED)
    assert not e.value.permanent
    assert {"a", "b", "c"} == world.deliveries.marks.keys()
    result = send_email(world.make_context(attempt=2), ASKED)

    assert (5 - len(lost), lost) == (result["sent"], result["uncertain"])


def test_last_mails_at_which_the_server_breaks_off_need_no_other_attempt(world: World):
    """Nothing is left that one could send."""
    broken = Sending(Fate.UNCERTAIN, "closed")
    world.mailer.outcomes |= {f"{letter}@x.org": [broken] for letter in "abc"}

    result = send_email(world.make_context(), ASKED)

    assert (0, ["a", "b", "c"]) == (result["sent"], result["uncertain"])


def test_refusals_of_every_kind_concern_one_recipient(world: World):
    """A 5xx, a 4xx and a connection that breaks off, between mails that arrive."""
    world.directory.users = tuple(map(make_user, "abcdefg"))
    world.mailer.outcomes |= {
        "b@x.org": [Sending(Fate.REFUSED, "550 no such user")],
        "d@x.org": [Sending(Fate.DEFERRED, "452 full")],
        "f@x.org": [BROKEN],
    }
    with pytest.raises(StepError) as caught:
        send_email(world.make_context(), ASKED)
    assert not caught.value.permanent
    assert [f"{letter}@x.org" for letter in "aceg"] == world.mailer.addresses

    result = send_email(world.make_context(attempt=2), ASKED)

    # what is refused is asked again, since an operator may have mended the mailbox
    assert [f"{letter}@x.org" for letter in "acegbdf"] == world.mailer.addresses
    assert 7 == result["sent"]


def test_mail_to_nobody_is_a_warning(world: World):
    """It succeeds, but whoever looks at the operation must see it."""
    world.directory.users = (User("a", "a@x.org"),)  # never activated

    result = send_email(world.make_context(), ASKED)

    assert 0 == result["sent"]
    assert ["Nobody gets it: none of the recipients may get mails now."] == (
        result["warnings"]
    )

"""What the operator lets a small app use: connections, senders, hosts. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from urllib.parse import urlsplit

from models.errors import InvalidDocumentError, Problem
from models.fields.addresses import is_refused
from models.fields.sql_connection import SqlConnection
from models.small_app import SmallAppModel


def check_settings(
    model: SmallAppModel,
    known: Mapping[str, SqlConnection],
    sender_hosts: Collection[str],
    webhook_hosts: Collection[str],
) -> Iterator[Problem]:
    """
    Yield what *model* names that would not be used, as the settings here are.

    Workers look again: their settings count, and may know connections although none are
    known here.

    Args:
        known: The connections, by name.
        sender_hosts: The hosts that mails may come from, in lower case.
        webhook_hosts: Those that may be called although they are not public.

    Raises:
        InvalidDocumentError: At the end: a connection does not serve this app, or its
            webhook would never be called.
    """
    refused = list[Problem]()
    for number, each in enumerate(model.domains or ()):
        name = each.source.connection
        if name is None or (name in known and known[name].serves(model.uid)):
            continue
        # The same whether there is one: it must not reveal the connections of others.
        problem = Problem(
            f"/domains/{number}/source/connection",
            f"Small app {model.uid!r} has no connection {name!r} here.",
            "An operator gives it one in MINUTEHAND_SQL_CONNECTIONS of the workers.",
        )
        if known:
            refused.append(problem)
        else:
            yield problem
    webhook = None if model.notices is None else model.notices.webhook
    host = urlsplit(webhook or "").hostname
    if host and is_refused(host, webhook_hosts):
        message = f"{host} is not a public address, so notices would be refused."
        hint = "An operator can allow it in MINUTEHAND_WEBHOOK_ALLOWED_HOSTS."
        refused.append(Problem("/notices/webhook", message, hint))
    sender = None if model.mail is None else model.mail.from_address
    doubt = find_sender_doubt(sender, sender_hosts)
    if doubt is not None:
        yield Problem("/mail/from_address", doubt, "")
    if refused:
        raise InvalidDocumentError(tuple(refused))


def find_sender_doubt(sender: str | None, allowed: Collection[str]) -> str | None:
    """Return why *sender*, of a small app, would not be used; None: it would."""
    if not sender or sender.rpartition("@")[2].lower() in allowed:
        return None
    return (
        f"{sender!r} is of no host in MINUTEHAND_MAIL_SENDER_HOSTS here, so mails"
        " come from the sender of the installation."
    )

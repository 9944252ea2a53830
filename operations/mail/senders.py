"""Whom mails come from: the installation, or an app that the operator lets. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from email.errors import MessageError
from email.headerregistry import Address
from email.utils import parseaddr

from operations.mail.message import Letterhead


@dataclass(frozen=True, slots=True)
class Senders:
    """
    Whom mails may come from.

    Args:
        default: The From address of the installation, such as "Reports <r@x.org>".
        hosts: What may stand behind the @ of a sender that a small app chose, in lower
            case.
    """

    default: str
    hosts: frozenset[str] = frozenset()

    def choose(self, letterhead: Letterhead) -> str | Address:
        """
        Return who sends a mail with *letterhead*.

        An address that the operator does not allow is not used: mail servers trust
        ours, and a tenant could write anybody's.

        Raises:
            ValueError: The default is no address.
        """
        if not (letterhead.name or letterhead.address):
            return self.default
        name, address = parseaddr(self.default)
        host = letterhead.address.rpartition("@")[2].lower()
        if host in self.hosts:
            address = letterhead.address
        return make_address(letterhead.name or name, address)


def make_address(name: str, address: str) -> Address:
    """
    Return an address for a header; *name* becomes one line.

    Raises:
        ValueError: *address* is none.
    """
    shown = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    try:
        return Address(display_name=shown, addr_spec=address)
    # The parser of addresses also stumbles with an IndexError over some texts.
    except (ValueError, IndexError, MessageError) as error:
        msg = f"{address!r} is not a mail address."
        raise ValueError(msg) from error

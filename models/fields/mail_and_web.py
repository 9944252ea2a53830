"""The form of addresses of mails and of web servers. Pure."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from models.errors import RuleError
from models.fields.strict_model import show

_EMAIL = re.compile(r"[^\s@<>,;\"\x00-\x1f\x7f]+@[^\s@<>,;\"\x00-\x1f\x7f]+")


def check_email(text: str) -> str:
    """Refuse an address that no mail can be sent to, or that would break a header."""
    if _EMAIL.fullmatch(text) is None:
        msg = f"{show(text)} is not a mail address."
        raise RuleError(msg, "Write an address such as 'ada@example.com'.")

    return text


def check_url(text: str) -> str:
    """
    Return *text* if it is an absolute HTTP address.

    Whether the address may be called is decided when it is called, since a host name
    may point elsewhere by then.

    Raises:
        RuleError: If it is not such an address, or contains a user or password.
    """
    hint = "Write an address such as 'https://example.com/hook'."
    if re.search(r"[\x00-\x20\x7f\\]", text):
        msg = f"{show(text)} contains a space, a control character or a backslash."
        raise RuleError(msg, hint)
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        msg = f"{show(text)} is not an address: {error}."
        raise RuleError(msg, hint) from None

    if parts.scheme not in {"http", "https"}:
        msg = f"{show(text)} does not begin with http:// or https://."
        raise RuleError(msg, hint)
    if not host:
        msg = f"{show(text)} has no host."
        raise RuleError(msg, hint)
    if "@" in parts.netloc:
        # Everybody who may see the app can read its documents.
        msg = f"The address of host '{host}' has a user or password in it."
        hint = "Leave them out: everyone who sees the document would see them."
        raise RuleError(msg, hint)

    return text

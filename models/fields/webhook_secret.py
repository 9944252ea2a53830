"""The key with which requests are signed, as operators write it. Pure."""

from __future__ import annotations

import base64
import binascii

from models.errors import RuleError

#: Prefix of secrets in the form of Standard Webhooks; base64 follows.
_PREFIX = "whsec_"


def decode_secret(text: str) -> bytes:
    """
    Return the key that *text* stands for.

    Args:
        text: ``whsec_`` and base64, or any other text, which is the key as it is.

    Raises:
        RuleError: There is no key. The message has no part of it.
    """
    if not text.startswith(_PREFIX):
        return text.encode()
    try:
        key = base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not key:
        hint = "Write it as whoever checks it has it, or another text."
        raise RuleError(f"is not base64 after {_PREFIX}.", hint)
    return key

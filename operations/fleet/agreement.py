"""The settings that all processes of a role must share, as text for doctor."""

from __future__ import annotations

from hashlib import blake2b

from pydantic import BaseModel, SecretStr

from models.fields.server_url import hide_sign_in
from operations.fleet.processes import ProcessRole

#: The settings that all processes of a role must share. The database is missing here: a
#: process that uses another database has no row in this one.
AGREED = {
    ProcessRole.SCHEDULER: (
        *("broker_url", "queue_prefix", "timezone"),
        *("lookback", "lease_ttl", "lease_heartbeat"),
        *("maintenance_enabled", "maintenance_at", "notice_mail"),
    ),
    ProcessRole.WORKER: (
        *("broker_url", "queue_prefix", "timezone", "workspace", "retention"),
        *("operation_lease", "operation_heartbeat", "webhook_secret"),
        "webhook_allowed_hosts",
    ),
}


def describe_settings(settings: BaseModel, role: ProcessRole) -> dict[str, str]:
    """
    Return the settings that processes of *role* must share, by variable, as text.

    A secret appears as a digest of four bytes: enough to compare, but too little to
    recover the secret. URLs appear without user and password, and with a digest of
    their parameters.
    """
    given = settings.model_dump(mode="json")
    return {
        f"MINUTEHAND_{name.upper()}": _describe(getattr(settings, name), given[name])
        for name in AGREED[role]
    }


def _describe(value: object, shown: object) -> str:
    if isinstance(value, SecretStr):
        return _make_digest(value.get_secret_value())
    if isinstance(shown, bool):
        return str(shown).lower()
    if isinstance(shown, list):
        return ", ".join(map(str, shown)) or "none"
    text = "not set" if shown is None else str(shown)
    if "://" not in text:
        return text
    parameters = text.partition("?")[2]
    told = f" ({_make_digest(parameters)})" if parameters else ""
    return f"{hide_sign_in(text)}{told}"


def _make_digest(secret: str) -> str:
    digest = blake2b(secret.encode(), digest_size=4, person=b"minutehand")
    return f"digest {digest.hexdigest()}"

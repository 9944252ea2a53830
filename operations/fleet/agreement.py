"""What all processes of a role must agree on, as text that doctor can compare."""

from __future__ import annotations

from hashlib import blake2b

from pydantic import BaseModel, SecretStr

from operations.fleet.processes import Role

#: What all processes of a role must agree on. Not the database: one that uses another
#: has no row here.
AGREED = {
    Role.SCHEDULER: (
        *("broker_url", "queue_prefix", "timezone"),
        *("lookback", "lease_ttl", "lease_heartbeat"),
        *("maintenance_enabled", "maintenance_at", "notice_mail"),
    ),
    Role.WORKER: (
        *("broker_url", "queue_prefix", "timezone", "workspace", "retention"),
        *("operation_lease", "operation_heartbeat", "webhook_secret"),
    ),
}


def describe_settings(settings: BaseModel, role: Role) -> dict[str, str]:
    """
    Return what processes of *role* must agree on, by variable, as text to compare.

    Of a secret that is a digest of four bytes: enough to tell two apart, and too little
    to find it by. URLs have neither user nor password.
    """
    given = settings.model_dump(mode="json")
    return {
        f"MINUTEHAND_{name.upper()}": _describe(getattr(settings, name), given[name])
        for name in AGREED[role]
    }


def _describe(value: object, shown: object) -> str:
    if isinstance(value, SecretStr):
        secret = value.get_secret_value().encode()
        digest = blake2b(secret, digest_size=4, person=b"minutehand")
        return f"digest {digest.hexdigest()}"
    if isinstance(shown, bool):
        return str(shown).lower()
    text = "not set" if shown is None else str(shown)
    scheme, separator, rest = text.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}" if separator else text

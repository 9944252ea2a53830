"""Bodies that work, for the OpenAPI document; tests send them."""

from __future__ import annotations

from typing import Any

WEEKLY: dict[str, Any] = {
    "name": "weekly update",
    "active": "true",
    "operations": {
        "refresh": {"domains": ["a", "b"]},
        "publish": {"data": "true", "design": "false", "permissions": "false"},
        "send_execsum": "true",
    },
    "when": {"cron_rule": "0 7 * * 1", "timezone": "Europe/Paris"},
    "recipients": {"users": ["toco@tou.can"], "groups": ["manager"]},
}

INACTIVE: dict[str, Any] = {
    "name": "bring back inactive users",
    "active": "true",
    "operations": {"send_email": {"template": "inactive"}},
    "when": {"after": "instance.user.last_seen", "delay": "P7DT30S"},
    "recipients": {"groups": ["all"]},
}

EXAMPLES = {
    "every Monday at seven in Paris": WEEKLY,
    "a week after a user was last seen": INACTIVE,
    "once": {
        "name": "opening",
        "operations": {"send_email": {"template": "opening"}},
        "when": {"due_date": "2035-12-01T09:00:00", "timezone": "Europe/Paris"},
        "recipients": {"groups": ["all"]},
    },
}

MANY = {
    "two": [
        {**WEEKLY, "name": "weekly update of the north"},
        {**WEEKLY, "name": "weekly update of the south"},
    ]
}

REPLACEMENT = {
    "an hour later": {
        **WEEKLY,
        "name": "weekly report",
        "when": {"cron_rule": "0 8 * * 1", "timezone": "Europe/Paris"},
    }
}

PATCHES = {
    "an hour later": {"when": {"cron_rule": "0 8 * * 1"}},
    "without recipients": {"recipients": None},
    "switched off": {"active": False},
}

RUNS: dict[str, Any] = {
    "all its steps": {},
    "one step, and why": {"steps": ["publish"], "note": "the import is mended"},
}

PAUSES = {
    "until the new year": {
        "until": "2035-01-01T00:00:00+01:00",
        "note": "until the import is mended",
    },
    "until somebody resumes it": {},
}

PREVIEWS = {
    "a whole action": WEEKLY,
    "only when": {"when": {"cron_rule": "30 2 * * *", "timezone": "Europe/Paris"}},
    "two rules, spread over five minutes": {
        "when": [{"cron_rule": "0 7 * * 1-5"}, {"cron_rule": "0 9 * * 6,0"}],
        "jitter": "PT5M",
    },
}

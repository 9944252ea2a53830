"""What the OpenAPI document shows as operations."""

from __future__ import annotations

ID = "3771f246-cc92-5326-b56a-8665f62de245"

STEP = {
    "name": "refresh",
    "state": "succeeded",
    "attempt": 1,
    "started_at": "2026-11-23T06:00:01Z",
    "finished_at": "2026-11-23T06:00:09Z",
    "progress": {"done": 2, "total": 2, "note": ""},
    "result": {"refreshed": ["orders"], "reused": ["countries"]},
    "error": None,
    "eta": None,
}
OPERATION = {
    "id": ID,
    "action_uid": "weekly",
    "action_name": "weekly update",
    "action_revision": 3,
    "app": "shop",
    "occurrence": "2026-11-23T06:00:00Z",
    "user": None,
    "trigger": "schedule",
    "triggerrer": 'Scheduled action "weekly update"',
    "queue": "heavy",
    "state": "failed",
    "reason": "step failed: publish",
    "attempt": 1,
    "attempts_allowed": 3,
    "recorded_at": "2026-11-23T06:00:00.104Z",
    "send_at": "2026-11-23T06:00:00.104Z",
    "sent_at": "2026-11-23T06:00:00.131Z",
    "started_at": "2026-11-23T06:00:01Z",
    "finished_at": "2026-11-23T06:00:10Z",
    "worker": "heavy@host",
    "progress": {"step": "refresh", "done": 2, "total": 2, "note": ""},
    "steps": [STEP],
    "error": "publish: nothing is staged",
    "details": None,
    "zone": "Europe/Paris",
    "mark": None,
    "uncertain_mails": 0,
    "why": {
        "text": "step failed: publish: nothing is staged at 2026-11-23 07:00:10 +01:00"
        " (06:00:10Z). Permanent: no further attempt follows by itself.",
        "same": {"same_as": ID},
        "remedies": ["retry"],
        "blocker": None,
    },
}
DELIVERY = {
    "step": "send_email",
    "recipient": "ada",
    "state": "sent",
    "error": None,
    "updated_at": "2026-11-23T06:00:09Z",
    "resolved_by": None,
    "resolved_at": None,
}
LINE = {
    "number": 1,
    "at": "2026-11-23T06:00:04Z",
    "attempt": 1,
    "step": "refresh",
    "level": "info",
    "text": "orders: read 1,204 rows, 38.1 KiB; it had no version yet",
}

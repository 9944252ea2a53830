"""The actions that have a story of their own: what an operator meets in this night."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Special:
    """
    An action that people remember.

    Args:
        work: As of ``Job``; decides what is written about its runs.
        typical_s: How long its runs usually take.
        revisions: How often its document was written.
        trouble: paused, quarantined. None: neither.
        ending: How its latest run stands at this moment: running, retrying.
            None: whatever becomes of it.
    """

    app: str
    work: str
    typical_s: float
    document: Mapping[str, Any]
    revisions: int = 1
    trouble: str | None = None
    ending: str | None = None

    @property
    def uid(self) -> str:
        """Of the action."""
        return str(self.document["uid"])


def _make(
    app: str,
    name: str,
    work: str,
    typical_s: float,
    when: Mapping[str, Any],
    steps: Mapping[str, Any],
    *,
    more: Mapping[str, Any] | None = None,
    **rest: Any,
) -> Special:
    uid = name.lower().replace(" ", "-")
    document = {"name": name, "uid": uid, "operations": steps, "when": when}
    return Special(app, work, typical_s, {**document, **(more or {})}, **rest)


def _cron(rule: str, zone: str) -> dict[str, str]:
    return {"cron_rule": rule, "timezone": zone}


def _refresh(*domains: str, publish: bool = False) -> dict[str, Any]:
    steps: dict[str, Any] = {"refresh": {"domains": list(domains)} if domains else True}
    return {**steps, "publish": {"data": True}} if publish else steps


SPECIALS = (
    _make(
        *("bluefin-foods", "Price feed", "task", 2.1),
        _cron("*/5 * * * *", "Europe/Madrid"),
        {"run_task": {"name": "bluefin.price_feed", "queue": "bluefin"}},
    ),
    _make(
        *("helios-solar", "Inverter sync", "hook", 6.4),
        _cron("7 * * * *", "America/New_York"),
        {"call_webhook": {"url": "https://hooks.helios.example/inverters"}},
    ),
    _make(
        *("delta-energy", "Meter readings", "data", 210),
        _cron("*/10 * * * *", "Europe/Berlin"),
        _refresh(),
        ending="running",
    ),
    _make(
        *("atlas-retail", "Stock positions", "data", 72),
        _cron("*/15 * * * *", "Europe/Paris"),
        _refresh("stock", "stores", publish=True),
    ),
    _make(
        *("atlas-retail", "Catalogue build", "data", 620),
        _cron("55 3 * * *", "Europe/Paris"),
        _refresh("catalogue", "suppliers", publish=True),
        ending="running",
    ),
    _make(
        *("kestrel-air", "Crew roster", "hook", 0.8),
        _cron("*/30 * * * *", "Europe/Dublin"),
        {"call_webhook": {"url": "https://hooks.kestrel.example/roster"}},
    ),
    _make(
        *("fjord-marine", "Tide tables", "data", 52),
        {"every": "PT6H", "anchor": "2026-01-01T02:00:00Z", "timezone": "UTC"},
        _refresh("tides", publish=True),
        ending="running",
    ),
    _make(
        *("juniper-hotels", "Rate parity check", "task", 11),
        _cron("*/15 8-17 * * 1-5", "Europe/Lisbon"),
        {"run_task": {"name": "juniper.rate_parity", "queue": "juniper"}},
    ),
    _make(
        *("pinewood-schools", "Absence letters", "mail", 38),
        _cron("0 16 * * 1-5", "Europe/Stockholm"),
        {"send_email": {"template": "absence-letter"}},
        more={"recipients": {"groups": ["office"]}, "except": [{"calendar": "se"}]},
    ),
    _make(
        *("lumen-grid", "Outage digest", "mail", 24),
        _cron("0 6 * * *", "Australia/Sydney"),
        {"send_email": {"template": "outage-digest"}},
        more={
            "recipients": {"groups": ["managers"]},
            "jitter": "PT20M",
            "catch_up": {"runs": "latest", "within": "P1D"},
        },
    ),
    _make(
        *("harbour-logistics", "Nightly warehouse load", "data", 246),
        _cron("30 2 * * *", "Europe/Paris"),
        {
            "refresh": True,
            "publish": {"data": True},
            "send_execsum": True,
            "call_webhook": {"url": "https://hooks.harbour.example/loaded"},
        },
        revisions=9,
        more={
            "recipients": {"groups": ["warehouse"]},
            "except": ["2026-12-25", "2027-01-01"],
        },
    ),
    _make(
        *("cedar-clinic", "Appointment reminders", "mail", 93),
        _cron("45 2 * * *", "Europe/London"),
        {"send_email": {"template": "appointment-reminder"}},
        more={"recipients": {"groups": ["patients"]}},
    ),
    _make(
        *("saltmarsh-parks", "Booking export", "data", 358),
        _cron("0 15 * * *", "Pacific/Auckland"),
        _refresh("bookings", "huts", "tracks", "visitors"),
        ending="running",
    ),
    _make(
        *("opal-cosmetics", "Weekly summary", "summary", 47),
        _cron("0 9 * * 1", "Asia/Tokyo"),
        {"send_execsum": True},
        more={"recipients": {"groups": ["managers"]}},
    ),
    _make(
        *("ironbridge-rail", "Safety bulletin", "mail", 64),
        _cron("0 7 * * 1", "Europe/London"),
        {"send_email": {"template": "safety-bulletin"}},
        more={"recipients": {"groups": ["crew"]}},
    ),
    _make(
        *("ironbridge-rail", "Rail possessions", "data", 84),
        _cron("0 * * * *", "Europe/London"),
        _refresh("possessions", "timetable", "stations", publish=True),
        ending="retrying",
    ),
    _make(
        *("granite-build", "Month-end close", "data", 1310),
        _cron("0 18 L * *", "America/Denver"),
        _refresh("sites", "deliveries", publish=True),
    ),
    _make(
        *("granite-build", "Site photos", "data", 2900),
        _cron("4 16 * * *", "America/Denver"),
        _refresh("sites", publish=True),
    ),
    _make(
        *("ridge-outdoor", "Spring catalogue", "data", 120),
        {"due_date": "2026-12-01T09:00:00", "timezone": "America/Los_Angeles"},
        _refresh("products", publish=True),
    ),
    _make(
        *("ember-insure", "Policy welcome", "mail", 1.6),
        {"on": "instance.user.activated", "timezone": "Europe/Dublin"},
        {"send_email": {"template": "renewal"}},
    ),
    _make(
        *("marlow-books", "Come back", "mail", 1.1),
        {
            "after": "instance.user.last_seen",
            "delay": "P30D",
            "timezone": "Europe/London",
        },
        {"send_email": {"template": "come-back"}},
    ),
    _make(
        *("northgate-bank", "Ledger close", "data", 542),
        _cron("30 1 * * 2-6", "America/New_York"),
        _refresh("ledger", "branches", publish=True),
        trouble="paused",
    ),
    _make(
        *("quarry-metals", "Assay import", "data", 195),
        _cron("0 5 * * *", "America/Phoenix"),
        _refresh("assays", publish=True),
        trouble="quarantined",
    ),
    _make(
        *("lumen-grid", "Feeder watch", "task", 0.6),
        _cron("*/5 * * * *", "Australia/Sydney"),
        {"run_task": {"name": "lumen.feeder_watch", "queue": "lumen"}},
    ),
    _make(
        *("ironbridge-rail", "Train positions", "hook", 1.4),
        _cron("*/10 * * * *", "Europe/London"),
        {"call_webhook": {"url": "https://hooks.ironbridge.example/positions"}},
        more={"overlap": "queue"},
    ),
    _make(
        *("northgate-bank", "Card clearing", "hook", 3.2),
        _cron("*/15 * * * *", "America/New_York"),
        {"call_webhook": {"url": "https://hooks.northgate.example/clearing"}},
        more={"catch_up": {"runs": "all", "within": "PT6H"}},
    ),
)

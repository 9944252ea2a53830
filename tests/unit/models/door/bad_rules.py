"""Rules that the door must refuse, and what their author is told."""

from __future__ import annotations

from tests.unit.models.documents import ACTION, Bad, action, when

SEVEN = "0 7 * * 1"

WHEN = [
    Bad(action(when=None), "/when", "null is not an object", "cron_rule"),
    Bad(action(when="0 7 * * 1"), "/when", "not an object", '{"cron_rule": "0 7'),
    Bad(action(when="daily"), "/when", "'daily' is not an object", "for instance"),
    Bad(action(when=[]), "/when", "0 rules", "1 to 20"),
    Bad(action(when=[ACTION["when"]] * 21), "/when", "21 rules", "1 to 20"),
    Bad(action(when=[[ACTION["when"]]]), "/when/0", "list within a list", "one list"),
    *(
        Bad(action(when=[each]), "/when/0", "no rule of time", "separate")
        for each in ({"on": "instance.user.created"}, {"after_action": "nightly"})
    ),
    Bad(action(when=["0 7 * * 1"]), "/when/0", "not an object", "cron_rule"),
    Bad(
        action(when=[ACTION["when"], {"cron_rule": "0 25 * * *"}]),
        "/when/1/cron_rule",
        "hour 25",
        "",
    ),
    Bad(when(), "/when", "no key that names a kind", "cron_rule, due_date, every"),
    Bad(when(timezone="UTC"), "/when", "no key that names a kind", "Add one of"),
    Bad(when(cron="0 7 * * 1"), "/when/cron", "'cron'", "mean 'cron_rule'"),
    Bad(when(interval="PT1H"), "/when/interval", "kind", "mean 'every'"),
    Bad(when(due="2027-01-01"), "/when/due", "kind", "mean 'due_date'"),
    Bad(when(event="x"), "/when/event", "kind", "mean 'on'"),
    Bad(when(delay="P1D"), "/when/delay", "kind", "mean 'after'"),
    Bad(
        when(cron_rule=SEVEN, every="P1D"),
        *("/when", "'cron_rule' and 'every' cannot be in one", "list"),
    ),
    Bad(when(on="app.paid", after="app.paid"), "/when", "'on' and 'after'", "Keep one"),
    Bad(when(cron_rule=SEVEN, delay="P1D"), "/when/delay", "not a known", "Leave it"),
    Bad(
        when(on="app.paid", delay="P1D"),
        *("/when/delay", "the event itself", "write 'after' instead of 'on'"),
    ),
    Bad(when(cron_rule="@daily", anchor="x"), "/when/anchor", "interval", "Leave it"),
    Bad(when(at="09:00"), "/when/at", "not a kind", "Write one of: cron_rule"),
    Bad(when(at="2026-12-01T09:00"), "/when/at", "not a kind", "mean 'due_date'"),
    Bad(when(event="app.paid", delay="P1D"), "/when/event", "kind", "mean 'after'"),
    *(
        Bad(
            when(**{"cron_rule": SEVEN, key: 1}),
            f"/when/{key}",
            "not a known key",
            "It belongs beside 'when', at the top",
        )
        for key in ("except", "jitter", "instead", "starts_at", "catch_up", "active")
    ),
    Bad(
        when(cron=SEVEN, jitter="PT5M"),
        *("/when/jitter", "'jitter' is not a known key", "beside 'when'"),
    ),
    *(
        Bad(action(**{key: "x"}), f"/{key}", "not a known key", f"belongs in '{part}'")
        for key, part in [
            ("cron_rule", "when"),
            ("send_email", "operations"),
            ("runs", "catch_up"),
            ("weekdays", "except"),
            ("domains", "operations.refresh"),
        ]
    ),
    Bad(when(cron_rule="61 * * * *"), "/when/cron_rule", "minute 61", ""),
    Bad(when(cron_rule="0 7 30 2 *"), "/when/cron_rule", "0 7 30 2 *", ""),
    Bad(when(cron_rule=7), "/when/cron_rule", "7 is not text", "0 7 * * 1"),
    Bad(when(cron_rule="1" * 501), "/when/cron_rule", "501 characters", "500"),
    *(
        Bad(when(cron_rule=SEVEN, timezone=zone), "/when/timezone", *said)
        for zone, *said in [
            ("Europe/Pariss", "'Europe/Pariss'", "Europe/Paris"),
            (None, "null", "Paris"),
            ("", "empty", "UTC"),
        ]
    ),
    Bad(when(cron_rule=SEVEN, tz="UTC"), "/when/tz", "'tz'", "timezone"),
    Bad(when(due_date="2026-12-01"), "/when/due_date", "time of day", "T00:00:00"),
    Bad(when(due_date=None), "/when/due_date", "null is not text", "2026-12-01T"),
    Bad(when(every="PT30S"), "/when/every", "shorter than a minute", "only step"),
    Bad(when(every=60), "/when/every", "60 is not text", '"every": "PT24H"'),
    Bad(when(every="1800"), "/when/every", "not an ISO", "PT90M for 90 minutes"),
    Bad(when(calendar="Mon..Fri 25:00"), "/when/calendar", "25", ""),
    Bad(when(on="instance.user.create"), "/when/on", "create'", "user.created'"),
    Bad(when(on="user.created"), "/when/on", "not an event", "instance.user.created"),
    Bad(when(on="app."), "/when/on", "'app.'", "app.invoice_sent"),
    Bad(when(on="app.Paid!"), "/when/on", "'app.Paid!'", "small letters"),
    Bad(when(on=None), "/when/on", "null is not text", "instance.user"),
    Bad(when(after="app.paid"), "/when/delay", "'delay' is missing", "P7DT30S"),
    Bad(when(after="app.paid", delay="7 days"), "/when/delay", "7 days", "P7D"),
    Bad(when(after="app.paid", delay=7), "/when/delay", "is not text", ': "P7DT30S"'),
    Bad(when(after="nothing", delay="P1D"), "/when/after", "'nothing'", "app.<name>"),
    Bad(
        when(after="app.paid", delay="P1D", at="9am"),
        *("/when/at", "'9am' is not a time of day", "Write 09:00."),
    ),
    *(
        Bad(when(**rule, at="09:00"), "/when/at", *said)
        for rule, *said in [
            ({"cron_rule": SEVEN}, "'cron_rule' has its own", "into 'cron_rule'."),
            ({"every": "P1D"}, "'every'", "into 'anchor'"),
            (
                {"due_date": "2026-12-01T07:00"},
                *("'due_date' has its own", "into 'due_date'"),
            ),
        ]
    ),
]

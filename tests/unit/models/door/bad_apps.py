"""Small apps and events that the door must refuse, and what is said of them."""

from __future__ import annotations

from tests.unit.models.documents import Bad, app, domain, event, source, user

WHICH_SERVICE = "which service of PagerDuty", "?routing_key=KEY"

APPS = [
    Bad("[]", "", "[] is not an object", "one JSON object"),
    Bad("{}", "/uid", "missing", '"uid": "shop"'),
    Bad(app(timezone="Paris"), "/timezone", "'Paris'", "Europe/Paris"),
    Bad(app(notices={"mail": "a@b"}), "/notices/mail", "not a list", "ops@example"),
    Bad(app(notices={"mail": ["a"]}), "/notices/mail/0", "not a mail", "@example"),
    Bad(app(notices={"mail": ["a@b"] * 21}), "/notices/mail", "21", "at most 20"),
    Bad(app(notices={"webhook": "x"}), "/notices/webhook", "http", "https://"),
    *(
        Bad(app(notices={"webhook": url}), "/notices/webhook", *WHICH_SERVICE)
        for url in (
            "https://events.pagerduty.com/v2/enqueue",
            "https://x.example/v2?routing_key=#pagerduty",
        )
    ),
    Bad(app(notices="a@b"), "/notices", "not an object", "ops@example.com"),
    *(
        Bad(app(mail={key: value}), f"/mail/{key}", *said)
        for key, value, *said in [
            ("reply_to", "a@b\r\nBcc: c@d", "not a mail address", "@example"),
            ("from_address", "é@b", "letters", "xn--"),
            ("from_name", "a\nb", "control", "one line"),
            ("from_name", "a" * 101, "101", "100"),
            ("unsubscribe", "http://a.b", "begins", "https"),
            ("unsubscribe", "mailto:a", "not a mail", "ada@"),
            ("unsubscribe", "https://a.b/>\r\nBcc:c@d", "written as %XX", "mailto:"),
            ("unsubscribe", "mailto:a@b?subject=x\ny", "control", "mailto:"),
            ("locale", "french!", "not a locale", "fr-CH"),
        ]
    ),
    Bad(app(users={}), "/users", "{} is not a list", '"id": "u1"'),
    Bad(app(users=[{}]), "/users/0/id", "missing", '"id": "u1"'),
    Bad(app(users=[{"id": "a"}, {"id": "a"}]), "/users/1/id", "more than once", "Keep"),
    Bad(user(email="ada"), "/users/0/email", "'ada' is not a mail", "ada@example.com"),
    Bad(user(locale="french!"), "/users/0/locale", "not a locale", "fr-CH"),
    Bad(user(groups="all"), "/users/0/groups", "not a list", "manager"),
    Bad(user(groups=["x" * 201]), "/users/0/groups/0", "201 characters", "200"),
    Bad(user(disabled="maybe"), "/users/0/disabled", "'maybe'", "true or false"),
    Bad(user(last_seen_at="2026-01-01T00:00"), "/users/0/last_seen_at", "offset", "Z"),
    Bad(user(expires_at=0), "/users/0/expires_at", "0 is not a date", "in quotes"),
    Bad(
        app(domains=[{"name": name, "source": {"file": "a.csv"}} for name in "aa"]),
        *("/domains/1/name", "more than once", "Keep one"),
    ),
    Bad(
        domain(columns={"x": {"unit": "x" * 21}}),
        *("/domains/0/columns/x/unit", "21", "20"),
    ),
    Bad(domain(title=" "), "/domains/0/title", "empty", "1 to 200"),
    Bad(domain(description="a\nb"), "/domains/0/description", "control", "one line"),
    Bad(source(), "/domains/0/source", "found nothing", '{"file"'),
    Bad(source(file="a", url="http://b"), "/domains/0/source", "'file' and", "file"),
    Bad(source(path="a.csv"), "/domains/0/source/path", "'path'", "file, url, sql"),
    Bad(source(url="s3://a"), "/domains/0/source/url", "does not begin", "https"),
    Bad(source(sql="select 1"), "/domains/0/source", "one is missing", "operator"),
    *(
        Bad(source(sql="select 1", **given), f"/domains/0/source{at}", *said)
        for given, at, *said in [
            ({"database": "sqlite:///x"}, "/database", "not a known key", "connection"),
            ({"connection": "a b"}, "/connection", "'a b' cannot name", "warehouse"),
            ({"connection": "erp", "format": "csv"}, "", "'format'", "Leave 'format'"),
        ]
    ),
    Bad(source(file="../x.csv"), "/domains/0/source/file", "leads out", "sales.csv"),
    Bad(source(file="a/.env"), "/domains/0/source/file", "hidden", "sales.csv"),
    Bad(
        source(file="a.xls", format="xls"),
        "/domains/0/source/format",
        *("'xls' is not a known value", "csv, json, jsonl, ndjson, parquet"),
    ),
    Bad(app(templates=[]), "/templates", "[] is not an object", "inactive"),
    Bad(app(templates={"": {"text": "b"}}), "/templates/", "empty", "1 to 200"),
    *(
        Bad(app(templates={"a": template}), f"/templates/a{at}", *said)
        for template, at, *said in [
            ({"text": "b"}, "/subject", "missing", "miss"),
            ({"subject": "b"}, "", "neither", "text"),
            ({"subject": "b\nc", "text": "d"}, "/subject", "one line", "one line"),
            (
                {"subject": "b", "text": "c\r\n{{ user.name }"},
                *("/text", "Line 2: unexpected '}'", "Jinja2"),
            ),
            (
                {"subject": "{{ x | uper }}", "text": "c"},
                *("/subject", "Line 1: there is no filter 'uper'", "mean 'upper'"),
            ),
            (
                {"subject": "b", "html": "{{" + "(" * 5000},
                *("/html", "nested too deeply", "fewer brackets"),
            ),
        ]
    ),
    Bad(app(documents={"design": []}), "/documents/design", "not an object", "{}"),
    *(
        Bad(app(holidays={"fr": [day]}), f"/holidays/fr/0{at}", *said)
        for day, at, *said in [
            ("x", "", "'x' is not a date", "2026-12-25"),
            ({"calendar": "de"}, "/calendar", "not a known key", "from, until"),
        ]
    ),
]

EVENTS = [
    Bad("[]", "", "list is empty", '"user"'),
    Bad("{}", "/event", "missing", "instance.user.last_seen"),
    Bad(event(event="instance.user.seen"), "/event", "not an event", "last_seen"),
    Bad(event(user=""), "/user", "empty", "1 to 200"),
    Bad(event(at="2026-01-01T00:00:00"), "/at", "no UTC offset", "Z"),
    Bad(f"{event()}\n{event(user=5)}\n", "/1/user", "5 is not text", "toco@tou.can"),
    Bad(f"{event()}\n\n{{\n", "/1", "Line 3, column 2: ", "double quotes"),
    Bad(f"{event()}\n{event(key='')}", "/1/key", "'' is empty", "1 to 200"),
]

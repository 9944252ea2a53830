"""Steps and recipients that the door must refuse, and what is said of them."""

from __future__ import annotations

from tests.unit.models.documents import Bad, action, recipients, steps

TASK = "/operations/run_task"

STEPS = [
    Bad(action(operations=None), "/operations", "null is not an object", "send_email"),
    Bad(steps(), "/operations", "No step", "refresh, publish"),
    Bad(steps(send_execsum="false"), "/operations", "No step", "Write at least one of"),
    Bad(steps(refresh=False, publish=None), "/operations", "No step", "Write at least"),
    Bad(steps(send_mail={}), "/operations/send_mail", "'send_mail'", "'send_email'"),
    *(
        Bad(steps(notify=asked), "/operations/notify", "scheduler", "notices.md")
        for asked in (True, False)
    ),
    *(
        Bad(steps(refresh=value), f"/operations/refresh{at}", *said)
        for value, at, *said in [
            ("everything", "", "everything", "domains"),
            ({}, "", "{} names no domain", "true for"),
            ({"domains": []}, "", "no domain", "true"),
            (["a"], "", '["a"]', '{"domains"'),
            ({"domains": "a"}, "/domains", "'a' is not a list", '["sales", "stores"]'),
            ({"domains": ["a", 1]}, "/domains/1", "1 is not text", "double quotes"),
            ({"domains": ["a", ""]}, "/domains/1", "'' is not a domain", "1 to 100"),
            ({"domains": ["../etc"]}, "/domains/0", "'../etc'", "without '/'"),
            (
                {"domains": ["a"], "force": "maybe"},
                *("/force", "'maybe' is neither", "true or false"),
            ),
        ]
    ),
    Bad(steps(publish="data"), "/operations/publish", "'data'", '{"data": true}'),
    Bad(steps(publish={"data": "tru"}), "/operations/publish/data", "'tru'", "true or"),
    *(
        Bad(steps(send_email=value), f"/operations/send_email{at}", *said)
        for value, at, *said in [
            ({}, "/template", "missing", "inactive"),
            ("inactive", "", "object", "template"),
            (True, "", "true is not", "template"),
            (
                {"template": "x", "users": []},
                *("/users", "not a known key", "It belongs in 'recipients'"),
            ),
            ({"name": "x"}, "/name", "not a known key", "Write one of: template"),
        ]
    ),
    Bad(steps(send_execsum={}), "/operations/send_execsum", "{} is neither", "true or"),
    Bad(steps(maintenance=""), "/operations/maintenance", "'' is neither", "true or"),
    *(
        Bad(steps(call_webhook={"url": url}), "/operations/call_webhook/url", why, way)
        for url, why, way in [
            ("", "http://", "https://example.com"),
            ("example.com/hook", "does not begin with", "https://example.com"),
            ("https://", "has no host", "https://example.com"),
            ("https://[::1/x", "not an address", "https://example.com"),
            ("https://a b/", "space", "https://example.com"),
            ("https://a/\r\nX: y", "control character", "https://example.com"),
            ("https://me:secret@a/", "user or password", "Leave them out"),
        ]
    ),
    *(
        Bad(steps(run_task=value), f"/operations/run_task{at}", *said)
        for value, at, *said in [
            ({}, "/name", "missing", "myproject"),
            ("t", "", "'t' is not an object", "name"),
            ({"name": "t", "args": {}}, "/args", "{} is not a list", '"args"'),
            ({"name": "t", "kwargs": []}, "/kwargs", "[] is not an object", '"kwargs"'),
            ({"name": "t", "queue": "é" * 150}, "/queue", "more than 255", "shorter"),
            ({"task": "t"}, "/task", "'task'", "is 'name'"),
            ({"name": "t", "options": {}}, "/options", "'options'", "beside 'name'"),
        ]
    ),
    Bad(
        steps(call_webhook={"url": "https://example.com", "headers": {}}),
        *("/operations/call_webhook/headers", "not a known key", "Write one of: url"),
    ),
    Bad(
        steps(run_task={"name": "t", "args": ["{{ user.id }}"]}),
        *("/when", "no user triggers", "follows an event"),
    ),
    *(
        Bad(steps(run_task={"name": "t", key: value}), f"{TASK}/{key}{at}", *said)
        for key, value, at, *said in [
            (
                *("kwargs", {"a": [{"b": "{{ ocurrence }}"}]}, "/a/0/b"),
                *("'{{ ocurrence }}' is not a known placeholder", "mean 'occurrence'?"),
            ),
            ("args", [1, "x {{user.id"], "/1", "without an end", "{{ '{{' }}"),
            ("args", ["{{ 1 + 1 }}"], "/0", "not a known", "app.uid"),
            ("headers", {"a": "{{ user }}"}, "/a", "not a known", "user.id"),
            ("priority", 256, "", "more than 255", "at most 255"),
            ("priority", -1, "", "less than 0", "0 or more"),
            ("priority", "high", "", "not a whole number", "such as 10"),
            ("expires", "P1D", "", "days or longer", "PT24H"),
            ("expires", "PT0S", "", "no time at all", "PT1M"),
            ("expires", "PT745H", "", "more than a month", "PT744H"),
            ("routing_key", "a.b", "", "there is none", '"queue"'),
            ("exchange", "", "", "empty", "1 to 200"),
            ("headers", [], "", "not an object", "headers"),
            ("headers", {"a b": 1}, "", "'a b' is not the name", "letters"),
            ("headers", {"Minutehand-app": 1}, "", "writes itself", "otherwise"),
            ("headers", {"CC": "minutehand.quick"}, "", "broker's own", "my-cc"),
            ("headers", {"expires": "now"}, "", "Celery's", "my-expires"),
            ("headers", {"a": ["b"]}, "", "cannot hold", "Write text"),
            ("headers", {"a": "x" * 4097}, "", "4,097 characters", "4,096"),
        ]
    ),
]

RECIPIENTS = [
    Bad(action(recipients="all"), "/recipients", "'all'", '{"groups": ["all"]}'),
    Bad(action(recipients=["a@b.c"]), "/recipients", "not an object", "groups"),
    Bad(recipients(groups="all"), "/recipients/groups", "'all' is not a list", "all"),
    Bad(recipients(groups=[""]), "/recipients/groups/0", "'' is empty", "1 to 200"),
    Bad(recipients(groups=["a", None]), "/recipients/groups/1", "null", "quotes"),
    Bad(recipients(users=["a\tb"]), "/recipients/users/0", "control", "one line"),
    Bad(recipients(groups=["x" * 201]), "/recipients/groups/0", "201 char", "200"),
    Bad(recipients(users=["x" * 321]), "/recipients/users/0", "321 char", "320"),
    Bad(recipients(users=["a"] * 10_001), "/recipients/users", "10001", "10000"),
    Bad(
        recipients(groups=["all"], only_inactive_users="x"),
        *("/recipients/only_inactive_users", "'x' is neither", "true or false"),
    ),
]

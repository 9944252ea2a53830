"""
Documents that the door must refuse, and what its author is told.

Each row: the text, the pointer of a problem, words of its message, words of its
hint. The texts of the first tables are whole; those of the others are one valid
action (or app, or event) with one thing changed.
"""

from __future__ import annotations

import json
from typing import Any

from tests.unit.models.documents import ACTION, Bad, action, on_event, without
from tests.unit.models.door.bad_rules import WHEN
from tests.unit.models.door.bad_steps import RECIPIENTS, STEPS

NINE = {"at": "09:00"}

_VALID = json.dumps(ACTION)
_DEEP = "[" * 40 + "]" * 40

NOT_JSON = [
    Bad("", "", "empty", "one JSON object"),
    Bad("{", "", "Line 1, column 2", "double quotes"),
    Bad("[1, 2", "", "the document ends there", "close every bracket"),
    Bad("nope", "", "found 'nope'", "true, false, null"),
    Bad("{name: 1}", "", "key in double quotes", "Put keys in double quotes"),
    Bad('{"a": 1,}', "", "column 8: there is a comma after the last", "Remove"),
    Bad('{"a": [1,\n ]}', "", "Line 1, column 9: there is a comma", "Remove"),
    Bad('{"a": [1,}', "", "a value was expected", "true, false, null"),
    Bad('{"a" 1}', "", "colon", '"key": value'),
    Bad('{"a": 1\n "b": 2}', "", "Line 2, column 2", "commas"),
    Bad('{"a": "b', "", "never ends", "double quote"),
    Bad('{"a": "b\nc"}', "", "line break", "\\n"),
    Bad('{"a": "\\x"}', "", "backslash", "write two"),
    Bad('{"a": "\\u12"}', "", "four hexadecimal digits", "\\u00e9"),
    Bad('{"a": True}', "", "found 'True", "true, false, null"),
    Bad('{"a": 01}', "", "comma or a closing bracket", "commas"),
    Bad('{"a": .5}', "", "a value was expected", "a number"),
    Bad("// weekly\n{}", "", "Line 1, column 1: JSON has no comments", "Remove"),
    Bad(_VALID + " x", "", "follows the end", "nothing after it"),
    Bad('{"name": "x" # why\n}', "", "JSON has no comments", "Remove it"),
    Bad(_VALID.encode("utf-16"), "", "not UTF-8: byte 0xff", "as UTF-8"),
    Bad(b'{"name": "caf\xe9"}', "", "byte 0xe9 at position 13", "as UTF-8"),
    Bad(" " * (1024 * 1024 + 1), "", "1048577 bytes", "split it up"),
    Bad("[" * 50_000, "", "more than 32 levels", "Flatten"),
    Bad(action(uid=json.loads(_DEEP)), "/uid" + "/0" * 31, "32 levels", "Flatten"),
]

NOT_OURS = [
    Bad("[]", "", "[] is not an object", "one JSON object"),
    Bad(f"[{_VALID}]", "", "is not an object", "one JSON object"),
    Bad('{"a": NaN}', "/a", "nan is not a JSON number", "finite"),
    Bad('{"a": [1, -Infinity]}', "/a/1", "-inf is not a JSON number", "finite"),
    Bad('{"a": 1e400}', "/a", "inf is not a JSON number", "finite"),
    Bad('{"a": 9223372036854775808}', "/a", "9223372036854775808", "18 digits"),
    Bad('{"a": ' + "9" * 5000 + "}", "/a", "5000 digits", "18 digits"),
    Bad('{"a": -' + "9" * 30 + "}", "/a", "larger than", "in quotes"),
    Bad('{"a": "x\\u0000"}', "/a", "NUL character (\\u0000) at position 1", "Remove"),
    Bad('{"a": {"b\\u0000": 1}}', "/a", "key contains a NUL", "Remove"),
    Bad('{"a": "\\ud800"}', "/a", "half a character (\\ud800)", "Remove"),
    Bad('{"\\udfff": 1}', "", "key contains half a character", "Remove"),
    Bad('{"name": "a", "name": "b"}', "/name", "more than once", "Keep one"),
    Bad('{"a/b~c": 1, "a/b~c": 2}', "/a~1b~0c", "'a/b~c'", "Keep one"),
    Bad('{"": 1, "": 2}', "/", "The key ''", "Keep one"),
]

FIELDS = [
    Bad("{}", "/name", "'name' is missing", '"name": "weekly update"'),
    Bad(without("name"), "/name", "missing", "weekly update"),
    Bad(without("operations"), "/operations", "missing", '"send_email"'),
    Bad(without("when"), "/when", "missing", '"cron_rule"'),
    Bad(action(enabled=True), "/enabled", "not a known key", "Write one of: name"),
    Bad(json.dumps({**ACTION, "except_": []}), "/except_", "key", "mean 'except'"),
    Bad(action(**{"a/b~": 1}), "/a~1b~0", "'a/b~'", "Write one of"),
    Bad(action(name=["a"]), "/name", '["a"] is not text', "weekly update"),
    Bad(action(name=""), "/name", "'' is empty", "1 to 200"),
    Bad(action(name="x" * 201), "/name", "201 characters", "at most 200"),
    Bad(action(name="a\nb"), "/name", "control character '\\n'", "on one line"),
    Bad(action(name="a\u202egnp.b"), "/name", "character '\\u202e'", "on one line"),
    Bad(action(name="a\x1b[31m"), "/name", "control character '\\x1b'", "tabs"),
    Bad(action(uid=""), "/uid", "'' is not a uid", "1 to 128"),
    Bad(action(uid="-a"), "/uid", "'-a' is not a uid", "beginning with a letter"),
    Bad(action(uid="x" * 129), "/uid", "not a uid", "1 to 128"),
    Bad(action(active="truee"), "/active", "'truee' is neither", "true or false"),
    Bad(action(active=None), "/active", "null is neither", "true or false"),
    Bad(action(jitter="5 minutes"), "/jitter", "'5 minutes'", "Write PT5M"),
    Bad(action(jitter="PT30S"), "/jitter", "whole number of minutes", "PT5M"),
    Bad(action(jitter="PT0M"), "/jitter", "above zero", "PT5M"),
    Bad(action(jitter="PT24H1M"), "/jitter", "more than a day", "PT24H"),
    Bad(action(jitter=5), "/jitter", "5 is not text", '"jitter": "PT5M"'),
    Bad(action(jitter="300"), "/jitter", "'300' is not an ISO", "PT90M"),
    Bad(action(catch_up={"within": 3600}), "/catch_up/within", "3600", "P1D"),
    Bad(
        on_event(jitter="PT5M"), "/jitter", "'PT5M' has no effect", "Leave 'jitter' out"
    ),
    Bad(on_event(except_=["2026-12-25"]), "/except", "event", "Leave 'except' out"),
    Bad(action(overlap="skipp"), "/overlap", "'skipp'", "mean 'skip'"),
    Bad(action(overlap=True), "/overlap", "true is not a known value", "queue"),
    Bad(action(retries=11), "/retries", "11", "10"),
    Bad(action(retries=-1), "/retries", "-1", "0"),
    Bad(action(retries="often"), "/retries", "'often'", "such as 10"),
    Bad(action(retry_after="P1D"), "/retry_after", "length depends", "PT24H"),
    Bad(action(retry_after="PT24H1S"), "/retry_after", "between", "PT1S to PT24H"),
    Bad(
        action(retries=0, retry_after="PT1M"),
        *("/retry_after", "'PT1M' has no effect", "Leave 'retry_after' out"),
    ),
    Bad(action(rest_after=0), "/rest_after", "0", "1"),
    Bad(action(rest_after=101), "/rest_after", "101", "100"),
    Bad(action(ping="https://hc-ping.com/x/start"), "/ping", "has 'start'", "Leave it"),
    *(
        Bad(
            action(operations={step: True}, **{"if": {"refreshed": True}}), "/if", *said
        )
        for step, *said in [
            ("publish", "nothing can be new", "Ask for 'refresh'"),
            ("refresh", "No step follows refresh", "'publish'"),
        ]
    ),
    Bad(action(**{"if": {"refreshed": False}}), "/if/refreshed", "false is no", "true"),
    Bad(action(**{"if": {"refrehsed": True}}), "/if/refrehsed", "known", "refreshed"),
    Bad(action(expect={}), "/expect", "Nothing is expected", "'within' or 'takes'"),
    Bad(action(expect={"within": 30}), "/expect/within", "not text", "PT30M"),
    Bad(action(expect={"takes": "P1D"}), "/expect/takes", "length depends", "PT24H"),
    Bad(action(expect={"take": "PT1M"}), "/expect/take", "known", "takes"),
    Bad(action(catch_up="latest"), "/catch_up", "not an object", '"runs": "latest"'),
    Bad(action(catch_up={"runs": "last"}), "/catch_up/runs", "'last'", "latest"),
    Bad(action(catch_up={"within": "1 day"}), "/catch_up/within", "1 day", "P1D"),
    Bad(action(catch_up={"within": -1}), "/catch_up/within", "-1", "P1D"),
    Bad(action(catch_up=None), "/catch_up", "null", '"runs"'),
]

#: Each with the rest of its pointer.
EXCEPT: list[tuple[Any, str, str, str]] = [
    ("2026-12-25", "", "not a list", '["2026-12-25"]'),
    (None, "", "null is not a list", "2026-12-25"),
    ({"weekdays": ["Sat"]}, "", "is not a list", '["2026-12-25"]'),
    ([["2026-12-25"]], "/0", "is not a date", "2026-12-25"),
    ([{"dates": ["2026-12-25"]}], "/0", "names no days", '["Sat", "Sun"]'),
    ([20261225], "/0", "20261225 is not a date", "in quotes"),
    (["2027-02-29"], "/0", "'2027-02-29'", "2026-12-25"),
    (["25.12.2026"], "/0", "not a date", "'2026-12-25'"),
    ([{}], "/0/from", "missing", '"from": "2026-12-24"'),
    ([{"from": "2026-12-24"}], "/0/until", "missing", "until"),
    (
        ["2026-12-25", {"from": "2026-12-24", "until": "2026-12-23"}],
        *("/1/until", "before the start, '2026-12-24'", "or a later day"),
    ),
    ([{"from_": "2026-12-24"}], "/0/from_", "'from_' is not a known", "mean 'from'"),
    (
        [{"from": "2026-12-24", "to": "2026-12-25"}],
        *("/0/to", "'to' is not a known key", "from, until"),
    ),
    (["Saturday"], "/0", "not a date", '"weekdays": ["Sat"]'),
    ([{"weekdays": ["Sat..Sun"]}], "/0/weekdays/0", "not one week", '["Sat", "Sun"]'),
    ([{"weekdays": ["Sut"]}], "/0/weekdays/0", "'Sut' is not a weekday", "Mon, Tue"),
    ([{"weekdays": [6]}], "/0/weekdays/0", "6", "quotes"),
    ([{"weekdays": []}], "/0/weekdays", "empty", "Sat"),
    ([{"weekday": ["Sat"]}], "/0/weekday", "key", "weekdays"),
    (
        [
            {"weekdays": ["Mon", "Tue", "Wed"]},
            {"weekdays": ["Thu", "Fri", "Sat", "Sun"]},
        ],
        *("", "All seven weekdays", "Leave one out"),
    ),
    ([{"calender": "fr"}], "/0/calender", "key", "calendar"),
    ([{"calendar": ""}], "/0/calendar", "empty", "name"),
    (["2026-12-25"] * 1001, "", "1001 entries", "at most 1000"),
]

BOUNDS = [
    Bad(action(starts_at="2026-12-01"), "/starts_at", "time of day", "T00:00:00"),
    Bad(action(starts_at="soon"), "/starts_at", "'soon' is not an ISO", "2026-12-01T"),
    Bad(action(starts_at=1764547200), "/starts_at", "1764547200", "in quotes"),
    Bad(action(ends_at="9991-01-01T00:00:00Z"), "/ends_at", "9990", "Write"),
    Bad(
        action(starts_at="2027-03-28T02:30:00"),
        *("/starts_at", "does not exist in Europe/Paris"),
        "'2027-03-28T01:59:59' or '2027-03-28T03:00:00'",
    ),
    Bad(
        action(starts_at="2026-12-01T00:00:00Z", ends_at="2026-12-01T01:00:00"),
        *("/ends_at", "is not after", "later end"),
    ),
    Bad(
        action(
            when=[
                {"cron_rule": "0 7 * * 1", "timezone": "Europe/Paris"},
                {"cron_rule": "0 7 * * 2", "timezone": "UTC"},
            ],
            starts_at="2026-12-01T00:00:00",
        ),
        *("/starts_at", "no UTC offset", "Add the offset"),
    ),
    *(Bad(action(except_=value), f"/except{at}", *said) for value, at, *said in EXCEPT),
    Bad(action(instead="before"), "/instead", "no day is excepted", "Add 'except'"),
    Bad(
        action(except_=["2026-12-25"], instead="nearest"),
        *("/instead", "nearest", "before"),
    ),
    *(
        Bad(action(when=value), f"/when{at}", *said)
        for value, at, *said in [
            ({"working_day": 24, **NINE}, "/working_day", "has 24", "at most 23"),
            ([{"working_day": -27, **NINE}], "/0/working_day", "has 27", "at most 23"),
            (
                {"working_day": 0, **NINE},
                *("/working_day", "0 is no day", "-1 for the last"),
            ),
            ({"working_day": 5}, "/at", "missing", '"at": "09:00"'),
            ({"working_day": 5, "at": "9am"}, "/at", "not a time of day", "09:00"),
        ]
    ),
    Bad(
        action(when={"working_day": -28, **NINE}, except_=[{"weekdays": ["Sun"]}]),
        *("/when/working_day", "No month has 28 working days", "at most 27"),
    ),
]

ACTIONS = [*NOT_JSON, *NOT_OURS, *FIELDS, *BOUNDS, *WHEN, *STEPS, *RECIPIENTS]

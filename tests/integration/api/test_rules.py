"""What holds for every route: preconditions, repeats, parts of lists, headers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from models.role import Role
from tests.integration.api.conftest import Web
from tests.integration.api.documented import Route, find_routes
from tests.integration.api.made_up import POSITIONS, make_cursor
from tests.integration.api.prepared import Prepared, digest_tables, prepare_two
from tests.integration.api.test_examples import find_ids, send

ROUTES = [each for each in find_routes() if not each.is_endless]
CHANGES = [each for each in ROUTES if each.method in {"PUT", "PATCH", "DELETE"}]
#: Their answers have a secret, which is not kept.
TOLD_ONCE = {"make_key", "replace_key"}
POSTS = [
    each
    for each in ROUTES
    if each.method == "POST" and each.role and each.name not in TOLD_ONCE
]
LISTS = [
    each
    for each in ROUTES
    if each.method == "GET" and any(p["name"] == "cursor" for p in each.parameters)
]

#: What a request leaves behind that changes nothing anybody asked for.
TRACES = frozenset({"api_keys", "idempotency_keys"})


@pytest.fixture
def prepared(free_web: Web, tmp_path: Path) -> Prepared:
    """Give an installation with an app that has everything, beside another."""
    return prepare_two(free_web.engine, tmp_path, is_documented=True)[0]


def ask(
    web: Web,
    route: Route,
    prepared: Prepared,
    *,
    query: Mapping[str, str] | None = None,
    headers: Mapping[str, str | None] | None = None,
) -> httpx2.Response:
    """Send the first example of a route, with other *headers* (None: not this one)."""
    sample = next(iter(route.make_samples(find_ids(route, prepared))))
    given = {**sample.headers, **(headers or {})}
    sample = replace(
        sample,
        query={**sample.query, **(query or {})},
        headers={name: value for name, value in given.items() if value is not None},
    )
    return send(web, sample, web.keys[None, Role.ADMIN])


@pytest.mark.slow
def test_changes_need_a_version(free_web: Web, prepared: Prepared):
    """428 without If-Match, 412 for one that nothing ever had."""
    before = digest_tables(free_web.engine, but=TRACES)
    found = {}
    for route in CHANGES:
        without = ask(free_web, route, prepared, headers={"If-Match": None})
        stale = ask(free_web, route, prepared, headers={"If-Match": '"stale"'})
        found[str(route)] = (without.status_code, stale.status_code)

    if faults := [
        f"{name}: {each}" for name, each in found.items() if each != (428, 412)
    ]:
        pytest.fail("\n".join(faults))
    assert digest_tables(free_web.engine, but=TRACES) == before


@pytest.mark.slow
def test_posts_can_be_repeated(free_web: Web, prepared: Prepared):
    """The same Idempotency-Key gives the same answer, and changes nothing further."""
    faults = []
    for route in POSTS:
        headers = {"Idempotency-Key": route.name}
        first = ask(free_web, route, prepared, headers=headers)
        before = digest_tables(free_web.engine, but=TRACES)
        again = ask(free_web, route, prepared, headers=headers)
        if (again.status_code, again.text) != (first.status_code, first.text):
            faults.append(f"{route}: {again.status_code} {again.text[:200]}")
        if again.headers.get("idempotency-replayed") != "true":
            faults.append(f"{route}: done again")
        if digest_tables(free_web.engine, but=TRACES) != before:
            faults.append(f"{route}: changed something")

    if faults:
        pytest.fail("\n".join(faults))


def _without_ages(value: Any) -> Any:
    """Return *value* without what is another a second later."""
    if isinstance(value, list):
        return [_without_ages(each) for each in value]
    if isinstance(value, dict):
        return {k: _without_ages(v) for k, v in value.items() if k != "age"}
    return value


def _turn(web: Web, first: httpx2.Response) -> Iterator[httpx2.Response]:
    """Yield the parts of a list, by their links."""
    headers = {"Authorization": f"Bearer {web.keys[None, Role.ADMIN]}"}
    answer = first
    for _ in range(300):
        yield answer
        if "next" not in answer.links:
            break
        answer = web.client.get(answer.links["next"]["url"], headers=headers)


@pytest.mark.slow
def test_lists_are_read_in_parts(free_web: Web, prepared: Prepared):
    """One by one gives the same entries in the same order as all at once."""
    faults = []
    for route in LISTS:
        whole = ask(free_web, route, prepared, query={"limit": "200"}).json()["items"]
        first = ask(free_web, route, prepared, query={"limit": "1"})
        parts = [each.json() for each in _turn(free_web, first)]
        entries = [one for each in parts for one in each["items"]]
        if _without_ages(entries) != _without_ages(whole):
            faults.append(f"{route}: {len(entries)} of {len(whole)} entries")
        if [each["next_cursor"] is None for each in parts].index(True) + 1 < len(parts):
            faults.append(f"{route}: a link leads on from where no cursor does")

    assert LISTS
    if faults:
        pytest.fail("\n".join(faults))


#: A parameter of lists, and what none of them takes.
UNFIT = (
    ("limit", "0"),
    ("limit", "201"),
    ("limit", "x"),
    ("cursor", "x"),
    ("foo", "1"),
)


@pytest.mark.slow
def test_lists_refuse_what_they_do_not_take(free_web: Web, prepared: Prepared):
    """With the name of the parameter."""
    found = {
        (str(route), name, text): ask(free_web, route, prepared, query={name: text})
        for route in LISTS
        for name, text in UNFIT
    }

    assert {case: (422, case[1]) for case in found} == {
        case: (answer.status_code, answer.json()["errors"][0].get("parameter"))
        for case, answer in found.items()
    }


@pytest.mark.slow
def test_cursor_that_was_made_up_breaks_no_list(free_web: Web, prepared: Prepared):
    """It is refused, or says where to go on: cursors are not signed."""
    faults = []
    for route in LISTS:
        sample = next(iter(route.make_samples(find_ids(route, prepared))))
        for position in POSITIONS:
            cursor = make_cursor(sample.path, sample.query, position)
            answer = ask(free_web, route, prepared, query={"cursor": cursor})
            if answer.status_code not in {200, 400, 422}:
                faults.append(f"{route}: {position}: {answer.status_code}")
            elif answer.status_code != 200 and "cursor" not in answer.json()["detail"]:
                faults.append(f"{route}: {position}: {answer.text}")

    if faults:
        pytest.fail("\n".join(faults))


@pytest.mark.slow
def test_every_answer_is_private(free_web: Web, prepared: Prepared):
    """It has the id of its request, is not kept by anybody, and not guessed at."""
    faults = []
    for route in ROUTES:
        if route.method != "GET":
            continue
        answer = ask(free_web, route, prepared)
        headers = answer.headers
        expected = {
            "cache-control": "no-store",
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
        }
        if {name: headers.get(name) for name in expected} != expected:
            faults.append(f"{route}: {dict(headers)}")
        if not headers.get("x-request-id"):
            faults.append(f"{route}: no request id")
        if route.role and not headers.get("ratelimit"):
            faults.append(f"{route}: no rate limit")

    if faults:
        pytest.fail("\n".join(faults))


def test_path_tells_all_its_methods(free_web: Web):
    """405 has an Allow with each of them, whichever route would have answered first."""
    paths: dict[str, set[str]] = {}
    for route in find_routes():
        paths.setdefault(route.path, set()).add(route.method)
    answers = {path: free_web.client.request("TRACE", path) for path in paths}

    assert {path: each.status_code for path, each in answers.items()} == dict.fromkeys(
        paths, 405
    )
    assert [
        path
        for path, each in answers.items()
        if not paths[path] <= set(each.headers["allow"].split(", "))
    ] == []

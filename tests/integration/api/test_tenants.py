"""No tenant sees, changes or can tell the existence of what belongs to another."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
import sqlalchemy as sa

from models.database.engine import db_now
from models.database.tables import api_keys
from models.role import Role
from tests.database import execute
from tests.integration.api.conftest import OTHER, Web
from tests.integration.api.documented import Route, Sample, find_routes
from tests.integration.api.prepared import Prepared, digest_tables, prepare_two
from tests.integration.api.test_examples import find_ids, send

ROUTES = [each for each in find_routes() if each.role and not each.is_endless]

#: Notes that a key was used, which is no change of anything.
OF_KEYS = frozenset({"api_keys"})


@pytest.fixture
def apps(free_web: Web, tmp_path: Path) -> tuple[Prepared, Prepared]:
    """Give the app that is asked for, and the one whose keys ask."""
    return prepare_two(free_web.engine, tmp_path, is_documented=True)


def find_plain(route: Route, ids: Mapping[str, str]) -> list[Sample]:
    """Return the examples that ask for no more than they must, or only try."""
    samples = [*route.make_samples(ids)]
    plain = {*samples[0].query, "dry_run"}
    return [each for each in samples if plain >= each.query.keys()]


def find_foreign(route: Route, asked: Prepared, asking: Prepared) -> Iterator[Sample]:
    """Yield requests that name what belongs to *asked*, in path, query or body."""
    ours = find_ids(route, asking)
    theirs = find_ids(route, asked)
    theirs = {name: theirs[name] for name in ours if theirs[name] != ours[name]}
    for parameter in route.parameters:
        name = parameter["name"]
        if name not in theirs:
            continue
        if parameter["in"] == "path":
            yield from find_plain(route, {**ours, name: theirs[name]})
        elif parameter["in"] == "query":
            for sample in find_plain(route, ours):
                yield replace(sample, query={**sample.query, name: theirs[name]})
    if "{app}" in route.path:
        yield from find_plain(route, {**ours, **theirs})
    for sample in find_plain(route, ours):
        if sample.content and sample.headers["Content-Type"].endswith("json"):
            body = json.loads(sample.content)
            changed = _put(body, theirs)
            if changed != body:
                yield replace(sample, content=json.dumps(changed).encode())


def _put(body: Any, ids: dict[str, str]) -> Any:
    """Return *body*, whose members name what belongs to another app."""
    if isinstance(body, list):
        return [_put(each, ids) for each in body]
    if not isinstance(body, dict):
        return body
    return {
        name: ids[name] if name in ids and isinstance(value, str) else _put(value, ids)
        for name, value in body.items()
    }


def make_up(route: Route, asked: Prepared, asking: Prepared) -> dict[str, str]:
    """Return, for each id of *asked*, one that looks like it and names nothing."""
    ours, theirs = find_ids(route, asking), find_ids(route, asked)
    return {
        text: re.sub("[0-9a-f]{8}", "0" * 8, text).replace(asked.app, "never")
        if re.search(f"{asked.app}|[0-9a-f]{{8}}", text)
        else f"never-{name}"
        for name, text in theirs.items()
        if name in ours and text != ours[name]
    }


def _name(text: str, ids: Mapping[str, str]) -> str:
    """Return *text* with the ids that stand beside those of it."""
    for theirs, never in ids.items():
        text = re.sub(rf"\b{re.escape(theirs)}\b", never, text)
    return text


def _find_twin(sample: Sample, never: Mapping[str, str]) -> Sample:
    """Return the request that names what never was."""
    content = None if sample.content is None else sample.content.decode()
    return replace(
        sample,
        path=_name(sample.path, never),
        query={name: _name(text, never) for name, text in sample.query.items()},
        content=None if content is None else _name(content, never).encode(),
    )


def _tell(answer: httpx2.Response, never: Mapping[str, str]) -> str:
    """Return the status and the words of an answer."""
    detail = json.loads(answer.content or "{}").get("detail")
    return _name(f"{answer.status_code} {detail}", never)


def test_foreign_things_do_not_exist(free_web: Web, apps: tuple[Prepared, Prepared]):
    """404, or an empty list, in the words for what never was."""
    asked, asking = apps
    faults = []
    before = digest_tables(free_web.engine, but=OF_KEYS)
    for route in ROUTES:
        never = make_up(route, asked, asking)
        key = free_web.keys[OTHER, Role(str(route.role))]
        for sample in find_foreign(route, asked, asking):
            answer = send(free_web, sample, key)
            told = _tell(answer, never)
            unknown = _tell(send(free_web, _find_twin(sample, never), key), never)
            name = f"{route} {sample.path} {dict(sample.query)} {sample.content!r}"
            if asked.mark in answer.text + str(answer.headers):
                faults.append(f"{name} shows {answer.text[:200]}")
            if told != unknown or not _is_unknown(answer, sample):
                faults.append(f"{name}: {told}, and of what never was {unknown}")
    after = digest_tables(free_web.engine, but=OF_KEYS)
    faults += [f"changed: {each}" for each in before if before[each] != after[each]]
    if faults:
        pytest.fail("\n".join(faults))


def _is_unknown(answer: httpx2.Response, sample: Sample) -> bool:
    if answer.status_code == 200 and sample.method == "GET":
        if not answer.headers["content-type"].startswith("application/json"):
            return not answer.content
        body = answer.json()
        return isinstance(body, dict) and not body.get("items", True)
    return bool(answer.status_code == 404)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/keys", {"role": "viewer", "app": OTHER}),
        ("/bulk", {"kind": "pause", "filter": {"app": OTHER}, "dry_run": True}),
        ("/mails/test", {"app": OTHER, "template": "report", "to": "ada"}),
    ],
)
def test_app_that_an_example_leaves_out_is_unknown_too(
    free_web: Web, path: str, body: dict[str, Any]
):
    """In the body, as where the examples name it."""
    never = json.loads(json.dumps(body).replace(OTHER, "never"))

    taken, unknown = (free_web.post(path, each) for each in (body, never))

    assert (404, 404) == (taken.status_code, unknown.status_code)
    assert taken.json()["detail"].replace(OTHER, "never") == unknown.json()["detail"]


def test_nothing_of_others_is_shown(free_web: Web, apps: tuple[Prepared, Prepared]):
    """
    Each route, asked about one's own, holds nothing that another app has written, and
    answers as documented.
    """
    asked, asking = apps
    faults = []
    for route in ROUTES:
        for sample in route.make_samples(find_ids(route, asking)):
            answer = send(free_web, sample, free_web.keys[OTHER, Role.ADMIN])
            text = answer.text + str(answer.headers)
            name = f"{route} ({sample.name})"
            faults += [f"{name}: {each}" for each in route.find_faults(answer)]
            if asked.mark in text:
                at = text.index(asked.mark)
                faults.append(f"{name}: …{text[at - 200 : at + 50]}…")
    if faults:
        pytest.fail("\n".join(faults))


def find_lower(route: Route) -> Role | None:
    """Return the role below the least one of *route*; what those below may, it may."""
    return max((each for each in Role if each < Role(str(route.role))), default=None)


def test_lower_role_does_nothing(free_web: Web, apps: tuple[Prepared, Prepared]):
    """403, whatever is asked, and nothing is changed."""
    own, _ = apps
    lower = [(route, role) for route in ROUTES if (role := find_lower(route))]
    before = digest_tables(free_web.engine, but=OF_KEYS)

    answers = {
        str(route): ask_first(free_web, route, own, free_web.keys[own.app, role])
        for route, role in lower
    }

    assert dict.fromkeys(answers, 403) == answers
    assert digest_tables(free_web.engine, but=OF_KEYS) == before


def ask_first(web: Web, route: Route, own: Prepared, key: str | None) -> int:
    """Return the status of the answer to the first example of a route."""
    return send(web, next(route.make_samples(find_ids(route, own))), key).status_code


def test_nobody_is_let_in_without_a_valid_key(
    free_web: Web, apps: tuple[Prepared, Prepared]
):
    """401 with none, a wrong, a revoked or an expired one, and nothing is changed."""
    own, _ = apps
    keys = {role: free_web.keys[own.app, role] for role in Role}
    bad = [f"{keys[Role.ADMIN]}x", keys[Role.ADMIN], keys[Role.EDITOR]]
    for key, column in zip(bad[1:], ("revoked_at", "expires_at"), strict=True):
        end = sa.update(api_keys).where(api_keys.c.id == key.split("_")[1])
        execute(free_web.engine, end.values({column: db_now()}))
    before = digest_tables(free_web.engine, but=OF_KEYS)

    without = {str(each): ask_first(free_web, each, own, None) for each in ROUTES}

    assert dict.fromkeys(without, 401) == without
    assert [401] * 3 == [ask_first(free_web, ROUTES[0], own, key) for key in bad]
    assert digest_tables(free_web.engine, but=OF_KEYS) == before

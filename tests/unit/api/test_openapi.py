"""What each route tells of itself in the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.routing import APIRoute

from api.guarding import ApiRoute
from api.openapi import COMMITTED, find_routes, make_document, to_text
from api.routes import PUBLIC_ROUTERS, ROUTERS
from models.role import Role
from tests.integration.api.documented import find_example

DOCUMENT = make_document()

#: What answers without a key: all that a stranger may know.
PUBLIC = {
    *("/livez", "/readyz", "/version", "/openapi.json", "/docs"),
    "/schemas/scheduled-action",
}

ROUTES = [
    (f"{method.upper()} {path}", route)
    for path, item in DOCUMENT["paths"].items()
    for method, route in item.items()
]


def find_parameters(route: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what a route has an example of, if it has one of anything."""
    yield from (
        each
        for each in route.get("parameters", ())
        if each["in"] != "header" or each["required"]
    )


def resolve(schema: dict[str, Any]) -> dict[str, Any]:
    """Return what a reference refers to."""
    name = schema.get("$ref", "").rpartition("/")[2]
    return DOCUMENT["components"]["schemas"][name] if name else schema


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what takes a route once for each."""
    if "route" in metafunc.fixturenames:
        metafunc.parametrize(
            "route",
            [route for _name, route in ROUTES],
            ids=[name for name, _route in ROUTES],
        )


def test_committed_document_is_that_of_the_code():
    """docs/openapi.json is what clients read; ``make openapi`` writes it."""
    assert COMMITTED.read_text("utf-8") == to_text(DOCUMENT), "run: make openapi"


def test_nothing_is_open_but_what_a_stranger_may_know():
    """Every other route passes the guard, with a role."""
    public = {
        route.path
        for router in PUBLIC_ROUTERS
        for route in router.routes
        if isinstance(route, APIRoute)
    }
    others = [
        route
        for router in ROUTERS
        for route in router.routes
        if not (isinstance(route, ApiRoute) and route.role)
    ]

    assert public <= PUBLIC
    assert others == []


def test_document_says_which_routes_need_a_key():
    """The role stands in the document, and in no route that is open."""
    told = {
        name: (bool(route["security"]), route.get("x-role")) for name, route in ROUTES
    }
    expected = {
        f"{method} {route.path_format}": (
            isinstance(route, ApiRoute),
            route.role if isinstance(route, ApiRoute) else None,
        )
        for route in find_routes()
        for method in route.methods or ()
    }

    assert told == expected


#: Who may do what, but for viewers, who may read, and operators, who may do the rest.
LEAST_ROLES = {
    Role.VIEWER: {"preview"},
    Role.EDITOR: {
        *("create_action", "create_actions", "replace_action", "patch_action"),
        *("remove_action", "apply_app", "export_app", "put_directory"),
        *("put_user", "patch_one_user", "delete_one_user"),
        *("refresh_data", "publish_data", "roll_back_data"),
    },
    Role.ADMIN: {
        *("delete_app", "list_changes", "export"),
        *("list_keys", "make_key", "end_key", "replace_key"),
    },
}


def test_who_may_do_what_is_this():
    """
    A document of an app has keys in addresses, and the record what everybody does.
    """
    told = {
        route["operationId"]: (name.partition(" ")[0], route["x-role"])
        for name, route in ROUTES
        if route["security"]
    }
    expected = {
        name: Role.VIEWER if method == "GET" else Role.OPERATOR
        for name, (method, _role) in told.items()
    }
    for role, names in LEAST_ROLES.items():
        expected |= dict.fromkeys(names, role)

    assert {name: str(role) for name, role in expected.items()} == {
        name: role for name, (_method, role) in told.items()
    }


def test_route_has_words(route: dict[str, Any]):
    """A name that reads well in a client, a sentence, and the group it belongs to."""
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", route["operationId"])
    assert 10 <= len(route["summary"]) <= 100
    assert route["description"].startswith(route["summary"][:10])
    assert "Args:" not in route["description"]
    assert len(route["tags"]) == 1


def test_names_are_of_one_route_each():
    """A client that is made from the document has a function for each."""
    names = [route["operationId"] for _name, route in ROUTES]

    assert sorted(names) == sorted(set(names))


def test_parameters_and_bodies_have_examples(route: dict[str, Any]):
    """
    Whatever must be given has one, so that each route can be tried as it is shown.
    """
    given = [*find_parameters(route)]
    with_examples = [each["name"] for each in given if find_example(each) is not None]
    silent = [
        each["name"]
        for each in given
        if each.get("required") and each["name"] not in with_examples
    ]
    bodies = route.get("requestBody", {}).get("content", {})

    assert silent == []
    assert [
        kind for kind, each in bodies.items() if "json" in kind and not each["examples"]
    ] == []


def test_parameters_are_described(route: dict[str, Any]):
    silent = [
        each["name"]
        for each in route.get("parameters", ())
        if not each.get("description")
    ]

    assert silent == []


def test_answers_are_declared(route: dict[str, Any]):
    """What comes back has members that the document names, not just any object."""
    good = {status: each for status, each in route["responses"].items() if status < "3"}
    open_ones = [
        status
        for status, each in good.items()
        for kind, content in each.get("content", {}).items()
        if kind == "application/json"
        if not (
            (schema := resolve(content["schema"])).keys()
            & {"properties", "anyOf", "oneOf", "enum", "const", "x-any"}
        )
        and schema.get("type") in {None, "object"}
    ]

    assert good
    assert open_ones == []


def test_problems_are_declared(route: dict[str, Any]):
    """Each is a problem (RFC 9457); what needs a key may refuse it."""
    problems = {status for status in route["responses"] if status >= "4"}
    needed = {"401", "403", "422", "429", "503"} if route["security"] else set()

    assert needed <= problems
    assert "500" not in problems


def find_lists(schema: Any, path: str = "") -> Iterator[str]:
    """Yield each list of a JSON schema that has no bound."""
    if isinstance(schema, list):
        for each in schema:
            yield from find_lists(each, path)
    elif isinstance(schema, dict):
        if schema.get("type") == "array" and "maxItems" not in schema:
            yield path
        for key, each in schema.items():
            if key not in {"examples", "default"}:
                yield from find_lists(each, f"{path}/{key}")


def test_every_list_of_a_body_has_a_bound():
    """
    But for the arguments of a task, which nobody looks into, and rules: 20 at most,
    which is said in other words.
    """
    routes = [each for router in ROUTERS for each in router.routes]
    taken = [each.takes for each in routes if isinstance(each, ApiRoute)]
    bodies = {each.schema for each in taken if each and isinstance(each.schema, type)}
    found = {
        f"{body.__name__}{path}"
        for body in bodies
        for path in find_lists(body.model_json_schema())
    }

    assert len(bodies) > 10
    assert {
        each for each in found if not each.endswith(("/args", "/when/anyOf"))
    } == set()

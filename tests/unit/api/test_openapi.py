"""What each route tells of itself in the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from fastapi.routing import APIRoute
from pydantic import TypeAdapter

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


def test_committed_document_is_that_of_the_code():
    """docs/openapi.json is what clients read; ``make openapi`` writes it."""
    assert COMMITTED.read_text("utf-8") == to_text(DOCUMENT), "run: make openapi"


def test_guide_names_only_what_there_is():
    """Whoever reads docs/api.md asks for nothing that answers 404."""
    guide = COMMITTED.with_name("api.md").read_text("utf-8")
    table = guide.partition("## What there is")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    named = {each for row in rows for each in re.findall(r"`(?:POST )?(.*?)`", row)}
    paths = "\n".join(DOCUMENT["paths"])

    assert rows
    assert [] == sorted(each for each in named if f"/{each.strip('/')}" not in paths)


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
    """A document of an app has keys, and the record what everybody does."""
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


def find_wrong(is_right: Callable[[dict[str, Any]], object]) -> list[str]:
    """Return the routes of which that is not so."""
    return [name for name, route in ROUTES if not is_right(route)]


def test_routes_have_words():
    """A name that reads well in a client, a sentence, and the group it belongs to."""

    def has_words(route: dict[str, Any]) -> bool:
        return (
            re.fullmatch(r"[a-z]+(_[a-z]+)*", route["operationId"]) is not None
            and 10 <= len(route["summary"]) <= 100
            and route["description"].startswith(route["summary"][:10])
            and "Args:" not in route["description"]
            and len(route["tags"]) == 1
        )

    assert [] == find_wrong(has_words)


def test_descriptions_are_for_readers_of_the_api():
    """Each field has what its docstring says of it, in the words of JSON."""
    schemas = DOCUMENT["components"]["schemas"]
    source = re.compile(r"Args:|``|\bNone\b|\b[A-Z]{3,}_[A-Z]")
    parts = [
        part
        for schema in schemas.values()
        for part in (schema, *schema.get("properties", {}).values())
    ]
    told = [part.get("description", "") for part in parts]

    assert [] == [text for text in told if source.search(text)]
    assert (
        "What was found and, unless it is good, what to do."
        == (schemas["Finding"]["properties"]["detail"]["description"])
    )


def test_names_are_of_one_route_each():
    names = [route["operationId"] for _name, route in ROUTES]

    assert sorted(names) == sorted(set(names))


def test_parameters_and_bodies_have_examples():
    """Each route can be tried as it is shown."""

    def has_examples(route: dict[str, Any]) -> bool:
        bodies = route.get("requestBody", {}).get("content", {})
        return all(
            find_example(each) is not None
            for each in find_parameters(route)
            if each.get("required")
        ) and all(each["examples"] for kind, each in bodies.items() if "json" in kind)

    assert [] == find_wrong(has_examples)


def test_parameters_are_described():
    def is_described(route: dict[str, Any]) -> bool:
        return all(each.get("description") for each in route.get("parameters", ()))

    assert [] == find_wrong(is_described)


def test_answers_are_declared():
    """What comes back has members that the document names, not just any object."""

    def is_named(content: dict[str, Any]) -> bool:
        schema = resolve(content["schema"])
        named = {"properties", "anyOf", "oneOf", "enum", "const", "x-any"}
        return bool(schema.keys() & named) or (
            schema.get("type") not in {None, "object"}
        )

    def is_declared(route: dict[str, Any]) -> bool:
        good = [each for status, each in route["responses"].items() if status < "3"]
        contents = [each.get("content", {}).get("application/json") for each in good]
        return bool(good) and all(map(is_named, filter(None, contents)))

    assert [] == find_wrong(is_declared)


def test_problems_are_declared():
    """Each is a problem (RFC 9457); what needs a key may refuse it."""

    def is_declared(route: dict[str, Any]) -> bool:
        problems = {status for status in route["responses"] if status >= "4"}
        needed = {"401", "403", "422", "429", "503"} if route["security"] else set()
        return needed <= problems and "500" not in problems

    assert [] == find_wrong(is_declared)


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
        for path in find_lists(TypeAdapter(body).json_schema())
    }

    assert len(bodies) > 10
    assert {
        each for each in found if not each.endswith(("/args", "/when/anyOf"))
    } == set()

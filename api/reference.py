"""
The page at /docs: the OpenAPI document as people read it. Pure.

It needs no script and loads nothing but its own style sheet.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

_Json = Mapping[str, Any]

#: True takes anything.
_Schema = Mapping[str, Any] | bool

#: What the text of docstrings has.
_MARKS = (
    (re.compile(r"(`{1,2})(?P<inner>[^`]+)\1"), "code"),
    (re.compile(r"(?<![\w*])\*(?P<inner>\w[^*<>]*)\*(?![\w*])"), "em"),
)


def render_reference(document: _Json) -> str:
    """
    Return the page.

    Args:
        document: The OpenAPI document of ``make_document``.
    """
    environment = Environment(
        loader=PackageLoader("api"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = _mark_up
    environment.filters["shape"] = _write_shape
    groups: dict[str, list[dict[str, Any]]] = {}
    for route in _find_routes(document):
        groups.setdefault(route["tag"], []).append(route)
    return environment.get_template("reference.html").render(
        info=document["info"],
        groups=groups,
        types=sorted(document["components"]["schemas"].items()),
    )


def read_style() -> str:
    """Return the style sheet of the page."""
    source, _, _ = PackageLoader("api").get_source(Environment(), "reference.css")  # noqa: S701 - nothing is rendered
    return source


def _find_routes(document: _Json) -> Iterator[dict[str, Any]]:
    for path, item in document["paths"].items():
        for method, route in item.items():
            yield {
                "method": method.upper(),
                "path": path,
                "tag": (route.get("tags") or ["others"])[0],
                "id": route["operationId"],
                "summary": route["summary"],
                "text": route["description"].partition("\n\n")[2],
                "role": route.get("x-role"),
                "parameters": route.get("parameters", []),
                "body": _find_body(route),
                "answers": [*_find_answers(route, document)],
                "curl": _write_curl(method.upper(), path, route),
            }


def _find_body(route: _Json) -> dict[str, Any] | None:
    body = route.get("requestBody")
    if body is None:
        return None
    kind, content = next(iter(body["content"].items()))
    examples = {
        name: _write_json(example["value"])
        for name, example in content.get("examples", {}).items()
    }
    return {
        "types": [*body["content"]],
        "kind": kind,
        "schema": content["schema"],
        "required": body.get("required", False),
        "examples": examples,
    }


def _find_answers(route: _Json, document: _Json) -> Iterator[dict[str, Any]]:
    for status, answer in sorted(route["responses"].items()):
        if "$ref" in answer:
            name = answer["$ref"].rpartition("/")[2]
            answer = document["components"]["responses"][name]  # noqa: PLW2901 - resolved
        contents = answer.get("content", {})
        schemas = [each["schema"] for each in contents.values() if "schema" in each]
        yield {
            "status": status,
            "phrase": HTTPStatus(int(status)).phrase,
            "schema": schemas[0] if schemas else None,
            "types": [*contents],
        }


def find_example(parameter: _Json) -> Any:
    """Return an example of a parameter. None: it has none."""
    if "example" in parameter:
        return parameter["example"]
    for example in parameter.get("examples", {}).values():
        return example["value"]
    return None


def _write_curl(method: str, path: str, route: _Json) -> str:
    """Return a line for a POSIX shell that asks as the examples do."""
    query = []
    words = ["curl -sS"] if method == "GET" else [f"curl -sS -X {method}"]
    headers = []
    if route.get("security"):
        words.append('--oauth2-bearer "$KEY"')
    for parameter in route.get("parameters", ()):
        name, example = parameter["name"], find_example(parameter)
        if parameter["in"] == "path":
            path = path.replace(f"{{{name}}}", quote(str(example), safe=""))
        elif parameter["in"] == "query" and parameter.get("required"):
            query.append((name, example))
        elif parameter["in"] == "header" and parameter.get("required"):
            headers.append("-H " + shlex.quote(f"{name}: {example}"))
    words += headers
    for kind, content in route.get("requestBody", {}).get("content", {}).items():
        words.append("-H " + shlex.quote(f"Content-Type: {kind}"))
        for example in [*content.get("examples", {}).values()][:1]:
            given = example["value"]
            text = given if isinstance(given, str) else _write_json(given)
            words.append("--data-binary " + shlex.quote(text))
        break
    address = path + ("?" + urlencode(query) if query else "")
    return " \\\n  ".join([*words, f'"$WEB{address}"'])


def _write_json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _mark_up(text: str) -> Markup:
    """Return paragraphs as HTML; whatever else *text* holds is shown as it is."""
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        html = str(escape(paragraph))
        for pattern, tag in _MARKS:
            html = pattern.sub(rf"<{tag}>\g<inner></{tag}>", html)
        paragraphs.append(f"<p>{html}</p>")
    return Markup("\n".join(paragraphs))  # noqa: S704 - all of it was escaped above


def _write_shape(schema: _Schema, depth: int = 0) -> Markup:
    """Return what a schema takes in a line; types with a name are links to it."""
    if isinstance(schema, bool) or not schema or depth > 4:
        return Markup("anything")
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        return Markup('<a href="#type-{0}">{0}</a>').format(name)
    if "const" in schema:
        return Markup("<code>{}</code>").format(json.dumps(schema["const"]))
    if "enum" in schema:
        values = [Markup("<code>{}</code>").format(each) for each in schema["enum"]]
        return Markup(" | ").join(values)
    inner = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if inner:
        shapes = dict.fromkeys(_write_shape(each, depth + 1) for each in inner)
        return Markup(" | ").join(shapes)
    return _write_kind(schema, depth)


def _write_kind(schema: _Json, depth: int) -> Markup:
    kind = schema.get("type", "anything")
    if isinstance(kind, list):
        shapes = [_write_shape({**schema, "type": each}, depth + 1) for each in kind]
        return Markup(" | ").join(shapes)
    if kind == "array":
        of = _write_shape(schema.get("items", {}), depth + 1)
        return Markup("list of {}").format(of)
    if kind == "object":
        return _write_object(schema, depth)
    return escape(f"{kind} ({schema['format']})" if "format" in schema else kind)


def _write_object(schema: _Json, depth: int) -> Markup:
    more = schema.get("additionalProperties")
    if "properties" in schema:
        members = [
            Markup("<code>{}</code>: {}").format(name, _write_shape(each, depth + 1))
            for name, each in schema["properties"].items()
        ]
        return Markup("{{{}}}").format(Markup(", ").join(members))
    if isinstance(more, Mapping) and more:
        return Markup("object of {}").format(_write_shape(more, depth + 1))
    return Markup("object")

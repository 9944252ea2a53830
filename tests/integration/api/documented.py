"""The routes of the OpenAPI document, as requests that can be sent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import quote

import httpx2
from jsonschema import Draft202012Validator, FormatChecker

from api.openapi import make_document

#: An instant is in UTC, and says so.
FORMATS = FormatChecker(formats=("uuid", "date"))


@FORMATS.checks("date-time")
def _is_instant(value: object) -> bool:
    return not isinstance(value, str) or value.endswith("Z")


def find_example(parameter: Mapping[str, Any]) -> Any:
    """Return an example of a parameter. None: it has none."""
    if "example" in parameter:
        return parameter["example"]
    return next((e["value"] for e in parameter.get("examples", {}).values()), None)


@dataclass(frozen=True)
class Sample:
    """A request that the document has an example of."""

    name: str
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    content: bytes | None


@dataclass(frozen=True)
class Route:
    """A route of the document, and what is told of it there."""

    method: str
    path: str
    told: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def name(self) -> str:
        """Its operationId."""
        name: str = self.told["operationId"]
        return name

    @property
    def role(self) -> str | None:
        """The least role. None: it needs no key."""
        return self.told.get("x-role")

    @property
    def is_endless(self) -> bool:
        """Whether its answer goes on for as long as anybody listens."""
        answers = self.told["responses"].get("200", {}).get("content", {})
        return "text/event-stream" in answers

    @property
    def takes_body(self) -> bool:
        """Whether it takes more than a path and a query."""
        return "requestBody" in self.told

    @property
    def parameters(self) -> list[dict[str, Any]]:
        """What it takes in path, query and headers."""
        found: list[dict[str, Any]] = self.told.get("parameters", [])
        return found

    def make_samples(self, ids: Mapping[str, str]) -> Iterator[Sample]:
        """
        Yield each example: of the body, and of each parameter that may be left out.

        Args:
            ids: What to put for parameters of the path and for ``app``, by name;
                others are those of the document.
        """
        required = {
            each["name"]: _to_text(ids.get(each["name"], find_example(each)))
            for each in self.parameters
            if each["in"] == "query" and (each.get("required") or each["name"] == "app")
        }
        bodies = [*self._make_bodies()]
        for name, headers, content in bodies:
            yield self._make_sample(name, ids, required, headers, content)
        name, headers, content = bodies[0]
        given = {
            each["name"]: _to_text(example)
            for each in self.parameters
            if each["in"] == "query" and each["name"] not in required
            if (example := find_example(each)) is not None
        }
        # Without its other end, a period that began then would be longer each day.
        period = {name: given[name] for name in ("from", "until") if name in given}
        for name, text in given.items():
            query = {**required, **(period if name in period else {}), name: text}
            yield self._make_sample(f"{name}={text}", ids, query, headers, content)

    def _make_bodies(self) -> Iterator[tuple[str, dict[str, str], bytes | None]]:
        contents = self.told.get("requestBody", {}).get("content", {})
        seen = set()
        for kind, content in contents.items():
            for name, example in content.get("examples", {}).items():
                value = example["value"]
                text = value if isinstance(value, str) else json.dumps(value)
                if text not in seen:
                    seen.add(text)
                    yield name, {"Content-Type": kind}, text.encode()
        if not contents:
            yield "as it is", {}, None

    def _make_sample(
        self,
        name: str,
        ids: Mapping[str, str],
        query: Mapping[str, str],
        headers: Mapping[str, str],
        content: bytes | None,
    ) -> Sample:
        path = self.path
        given = dict(headers)
        for each in self.parameters:
            value = _to_text(ids.get(each["name"], find_example(each)))
            if each["in"] == "path":
                path = path.replace(f"{{{each['name']}}}", quote(value, safe=""))
            elif each["in"] == "header" and each.get("required"):
                given.setdefault(each["name"], _to_text(find_example(each)))
        return Sample(name, self.method, path, query, given, content)

    def find_faults(self, answer: httpx2.Response) -> Iterator[str]:
        """Yield what in *answer* is not as the document says."""
        responses = self.told["responses"]
        status = str(answer.status_code)
        if status not in responses:
            yield f"{status} is not documented: {answer.text[:300]}"
            return
        contents = resolve(responses[status]).get("content", {})
        kind = answer.headers.get("content-type", "").partition(";")[0]
        if not contents:
            if answer.content:
                yield f"{status} has a body, and none is documented"
            return
        if kind not in contents:
            yield f"{status} is {kind}; documented: {[*contents]}"
            return
        if kind.endswith("json"):
            schema = contents[kind].get("schema", {})
            validator = Draft202012Validator(
                {**schema, "components": make_closed_components()},
                format_checker=FORMATS,
            )
            for error in validator.iter_errors(answer.json()):
                yield f"{status} {error.json_path}: {error.message[:300]}"


@cache
def find_routes() -> tuple[Route, ...]:
    """Return every route of the document."""
    return tuple(
        Route(method.upper(), path, told)
        for path, item in make_document()["paths"].items()
        for method, told in item.items()
    )


@cache
def make_closed_components() -> dict[str, Any]:
    """Return the document's types, which allow no member that they do not name."""
    components: dict[str, Any] = deepcopy(make_document()["components"])
    _close(components["schemas"])
    return components


def resolve(told: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a reference refers to."""
    if "$ref" not in told:
        return told
    found: Any = make_document()
    for part in told["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    resolved: Mapping[str, Any] = found
    return resolved


def _close(part: Any) -> None:
    if isinstance(part, list):
        for each in part:
            _close(each)
    elif isinstance(part, dict):
        if isinstance(part.get("properties"), dict):
            part.setdefault("additionalProperties", False)
        for each in part.values():
            _close(each)


def _to_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)

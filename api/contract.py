"""
What clients rely on: which differences of two OpenAPI documents break them. Pure.

docs/openapi.json is committed, and is what clients were promised. It is overwritten
only if nothing in it breaks, or the changelog names each thing that does.

A client breaks if what it sends is no longer taken, or if what it reads is no longer
there or is of another kind. It must bear what is new: paths, members of answers, and
values of text in answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

#: The heading of CHANGELOG.md under which breaking changes are named.
HEADING = "### Changed for clients of the HTTP API"

_Json = Mapping[str, Any]

#: True takes anything.
_Schema = Mapping[str, Any] | bool

#: From the least to the most that a key may do.
_ROLES = (None, "viewer", "operator", "editor", "admin")

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")

#: Bounds that take less the lower they are, and those that take less the higher.
_UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")

#: What takes less as soon as it is there, or is another one.
_SHAPES = ("pattern", "format", "multipleOf", "uniqueItems", "propertyNames")


class _Way(Enum):
    """Which way data goes."""

    SENT = "sent"
    ANSWERED = "answered"


def compare_documents(old: _Json, new: _Json) -> list[str]:
    """
    Return what of *old* clients can no longer rely on, a line for each thing.

    Args:
        old: The OpenAPI document that they know.
        new: The one that is to take its place.
    """
    return list(dict.fromkeys(_Comparison(old, new).find_breaks()))


def find_unnamed(breaks: Sequence[str], changelog: str) -> list[str]:
    """
    Return those of *breaks* that *changelog* does not name.

    Each is named, word for word, in a list entry of HEADING below ``## Unreleased``.
    """
    unreleased = changelog.partition("\n## Unreleased")[2].partition("\n## ")[0]
    section = unreleased.partition(HEADING)[2].partition("\n### ")[0]
    named = " ".join(section.split()).replace("`", "")
    return [each for each in breaks if " ".join(each.split()) not in named]


@dataclass(slots=True)
class _Comparison:
    """
    One comparison of two documents.

    Args:
        seen: Pairs of references that were met, so that a schema that holds itself has
            an end.
    """

    old: _Json
    new: _Json
    seen: set[tuple[str, str, _Way]] = field(default_factory=set)

    def find_breaks(self) -> Iterator[str]:
        """Yield everything that breaks a client."""
        for path, item in self.old["paths"].items():
            now = self.new["paths"].get(path)
            for method in [each for each in _METHODS if each in item]:
                name = f"{method.upper()} {path}"
                if now is None or method not in now:
                    yield f"{name} is gone"
                else:
                    yield from self._compare_route(name, item[method], now[method])

    def _compare_route(self, name: str, old: _Json, new: _Json) -> Iterator[str]:
        roles = [_ROLES.index(each.get("x-role")) for each in (old, new)]
        if roles[0] < roles[1]:
            yield f"{name} needs the role {new['x-role']}"
        yield from self._compare_parameters(name, old, new)
        yield from self._compare_bodies(name, old, new)
        for status, answer in old["responses"].items():
            if not status.startswith("2"):
                continue  # which problems there are is told by the status itself
            if status not in new["responses"]:
                yield f"{name} no longer answers {status}"
                continue
            now = new["responses"][status]
            where = f"{name} answers {status}"
            yield from self._compare_contents(where, answer, now, _Way.ANSWERED)

    def _compare_parameters(self, name: str, old: _Json, new: _Json) -> Iterator[str]:
        before, after = (
            {(each["in"], each["name"]): each for each in route.get("parameters", ())}
            for route in (old, new)
        )
        for key, parameter in before.items():
            where = f"{name} {key[0]} parameter {key[1]}"
            if key not in after:
                yield f"{where} is gone"
                continue
            if _is_required(after[key]) and not _is_required(parameter):
                yield f"{where} is required"
            schemas = parameter.get("schema", {}), after[key].get("schema", {})
            yield from self._compare_schemas(where, *schemas, _Way.SENT)
        for place, parameter in after.keys() - before.keys():
            if _is_required(after[place, parameter]):
                yield f"{name} {place} parameter {parameter} is required"

    def _compare_bodies(self, name: str, old: _Json, new: _Json) -> Iterator[str]:
        before, after = old.get("requestBody"), new.get("requestBody")
        if after and after.get("required") and not (before and before.get("required")):
            yield f"{name} body is required"
        if before and not after:
            yield f"{name} body is gone"
        if before and after:
            yield from self._compare_contents(f"{name} body", before, after, _Way.SENT)

    def _compare_contents(
        self, where: str, old: _Json, new: _Json, way: _Way
    ) -> Iterator[str]:
        for kind, content in old.get("content", {}).items():
            if kind not in new.get("content", {}):
                yield f"{where} as {kind} is gone"
                continue
            schemas = content.get("schema", {}), new["content"][kind].get("schema", {})
            yield from self._compare_schemas(where, *schemas, way)

    def _compare_schemas(
        self, where: str, old: _Schema, new: _Schema, way: _Way
    ) -> Iterator[str]:
        """Yield what breaks: of what is sent, each alternative must still be taken."""
        given, taken = (old, new) if way is _Way.SENT else (new, old)
        of_given, of_taken = (
            (self.old, self.new) if way is _Way.SENT else (self.new, self.old)
        )
        alternatives = [*_split(taken, of_taken)]
        for one in _split(given, of_given):
            yield from self._fit(where, one, alternatives, way)

    def _fit(
        self, where: str, given: _Json, alternatives: Sequence[_Json], way: _Way
    ) -> Iterator[str]:
        """Yield why *given* fits none of *alternatives*: told by the nearest."""
        alike = [each for each in alternatives if _is_alike(given, each)]
        if not alike:
            verb = "no longer takes" if way is _Way.SENT else "may now be"
            yield f"{where} {verb} {_name(given)}"
            return
        found: list[str] | None = None
        for each in alike:
            seen = set(self.seen)
            breaks = [*self._compare_one(where, given, each, way)]
            if not breaks:
                return
            self.seen = seen
            if found is None or len(breaks) < len(found):
                found = breaks
        yield from found or ()

    def _compare_one(
        self, where: str, given: _Json, taken: _Json, way: _Way
    ) -> Iterator[str]:
        """Compare two schemas without alternatives."""
        pair = (given.get("x-ref", ""), taken.get("x-ref", ""), way)
        if all(pair[:2]):
            if pair in self.seen:
                return
            self.seen.add(pair)
        old, new = (given, taken) if way is _Way.SENT else (taken, given)
        if way is _Way.SENT:
            yield from _compare_bounds(where, given, taken)
        yield from self._compare_members(where, old, new, way)
        for part, mark in (("items", "[]"), ("additionalProperties", ".*")):
            before, after = old.get(part), new.get(part)
            if isinstance(before, Mapping) and isinstance(after, Mapping):
                yield from self._compare_schemas(where + mark, before, after, way)
        is_closed = new.get("additionalProperties") is False
        if way is _Way.SENT and is_closed and old.get("additionalProperties", True):
            yield f"{where} no longer takes further members"

    def _compare_members(
        self, where: str, old: _Json, new: _Json, way: _Way
    ) -> Iterator[str]:
        before, after = (each.get("properties", {}) for each in (old, new))
        required, now = (set(each.get("required", ())) for each in (old, new))
        for name, schema in before.items():
            if name not in after:
                yield f"{where}.{name} is gone"
                continue
            yield from self._compare_schemas(
                f"{where}.{name}", schema, after[name], way
            )
        if way is _Way.SENT:
            gained = sorted(now - required)
            yield from (f"{where}.{name} is required" for name in gained)
        else:
            lost = sorted((required - now) & after.keys())
            yield from (f"{where}.{name} may now be left out" for name in lost)


def _is_required(parameter: _Json) -> bool:
    return bool(parameter.get("required", False))


def _split(schema: _Schema, document: _Json) -> Iterator[_Json]:
    """Yield the alternatives of a schema, each without references or alternatives."""
    if isinstance(schema, bool):
        yield {}
    elif "$ref" in schema:
        reference = schema["$ref"]
        for each in _split(_resolve(reference, document), document):
            yield {"x-ref": reference, **each}
    elif alternatives := schema.get("anyOf") or schema.get("oneOf"):
        for each in alternatives:
            yield from _split(each, document)
    elif isinstance(schema.get("type"), list):
        yield from ({**schema, "type": each} for each in schema["type"])
    elif len(parts := schema.get("allOf", ())) == 1:
        rest = {name: value for name, value in schema.items() if name != "allOf"}
        yield from ({**each, **rest} for each in _split(parts[0], document))
    else:
        yield schema


def _resolve(reference: str, document: _Json) -> _Json:
    found: Any = document
    for part in reference.removeprefix("#/").split("/"):
        found = found[part.replace("~1", "/").replace("~0", "~")]
    resolved: _Json = found
    return resolved


def _find_kind(schema: _Json) -> str | None:
    """Return the type of a schema, which its values may tell. None: any."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if "type" not in schema and values and isinstance(values[0], str):
        return "string"
    kind: str | None = schema.get("type")
    return kind


def _is_alike(given: _Json, taken: _Json) -> bool:
    """Tell whether *taken* is of the same type, or of one that holds it."""
    kinds = _find_kind(given), _find_kind(taken)
    return kinds[1] in {None, kinds[0]} or kinds == ("integer", "number")


def _name(schema: _Json) -> str:
    """Return what a person calls a schema."""
    return str(_find_kind(schema) or "just anything")


def _compare_bounds(where: str, old: _Json, new: _Json) -> Iterator[str]:
    """Yield what *new* takes less than *old*."""
    values = [_find_values(each) for each in (old, new)]
    if values[1] is not None:
        if values[0] is None:
            yield f"{where} takes certain values only"
        else:
            lost = [each for each in values[0] if each not in values[1]]
            yield from (f"{where} no longer takes {each!r}" for each in lost)
    for name in _UPPER:
        if name in new and (name not in old or new[name] < old[name]):
            yield f"{where} has {name} {new[name]}"
    for name in _LOWER:
        if name in new and (name not in old or new[name] > old[name]):
            yield f"{where} has {name} {new[name]}"
    for name in _SHAPES:
        if name in new and old.get(name) != new[name]:
            yield f"{where} has {name} {new[name]}"


def _find_values(schema: _Json) -> list[Any] | None:
    """Return the only values that a schema takes. None: there are others."""
    if "const" in schema:
        return [schema["const"]]
    found: list[Any] | None = schema.get("enum")
    return found

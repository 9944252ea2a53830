"""
Look for what installed packages add: steps, sources and rules, by their entry points.

Commands only say at their start how to look (cli/main.py): packages are looked for when
something names a kind that is not built in, so whoever needs none pays nothing.
Programs that run for long call dispatch/reporting_packages.py at their start, so that
what cannot be used is known before it is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from models.extending import InstalledSource, InstalledStep
from models.installed import Packages, Refusal
from models.operation import OperationModel
from models.small_app import SourceModel
from models.when import KINDS, InstalledWhen

#: The group of entry points of each, by the word for one of them.
GROUPS = {
    "step": "minutehand.steps",
    "source": "minutehand.sources",
    "when": "minutehand.when",
}

_NAME = re.compile(r"[a-z][a-z0-9_]{0,99}", re.ASCII)


def find_packages() -> Packages:
    """Load all entry points of ours; whatever they do, this returns."""
    collected = _Collected()
    for what, entry in _find_entry_points():
        collected.add(what, entry)
    return collected.make()


def _find_entry_points() -> Iterator[tuple[str, EntryPoint]]:
    found = entry_points()
    for what, group in GROUPS.items():
        for entry in sorted(found.select(group=group), key=lambda e: (e.name, e.value)):
            yield what, entry


@dataclass(slots=True)
class _Collected:
    """What was found so far."""

    kinds: dict[tuple[str, str], Any] = field(default_factory=dict)
    origins: dict[tuple[str, str], str] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)

    def add(self, what: str, entry: EntryPoint) -> None:
        package = _name_package(entry)
        key = what, entry.name
        reason = self._find_clash(what, entry.name)
        if reason is None:
            try:
                kind = entry.load()
            except (Exception, SystemExit) as error:  # noqa: BLE001 - others wrote it
                reason = f"it cannot be loaded: {type(error).__name__}: {error}"
            else:
                reason = _find_fault(what, entry.name, kind)
        if reason is not None:
            self.refusals.append(Refusal(package, entry.name, what, reason))
            return
        self.kinds[key], self.origins[key] = kind, package

    def _find_clash(self, what: str, name: str) -> str | None:
        if _NAME.fullmatch(name) is None:
            return "a name has small letters, digits and _, and begins with a letter."
        if name in _list_own(what):
            return "Minutehand has that itself. The package must call it otherwise."
        other = self.origins.get((what, name))
        if other is not None:
            return f"package {other} has one of that name. Uninstall one of the two."
        return None

    def make(self) -> Packages:
        def select(what: str) -> dict[str, Any]:
            return {name: kind for (w, name), kind in self.kinds.items() if w == what}

        return Packages(
            steps=select("step"),
            sources=select("source"),
            whens=select("when"),
            origins=self.origins,
            refusals=tuple(self.refusals),
        )


def _name_package(entry: EntryPoint) -> str:
    """Return name and version of the package that *entry* is of."""
    if entry.dist is None:
        return f"of {entry.value}"
    return f"{entry.dist.name} {entry.dist.version}"


def _list_own(what: str) -> set[str]:
    """Return the names that are built in, and those of keys beside them."""
    match what:
        case "step":
            return set(OperationModel.model_fields)
        case "source":
            return set(SourceModel.model_fields) | {"database"}
        case _:
            fields = (name for kind in KINDS.values() for name in kind.model_fields)
            return {*KINDS, *fields}


def _find_fault(what: str, name: str, kind: object) -> str | None:
    """Return why *kind* cannot be used as it is; None if it can."""
    bases: dict[str, tuple[type, str]] = {
        "step": (InstalledStep, "run"),
        "source": (InstalledSource, "read"),
        "when": (InstalledWhen, "next_from"),
    }
    base, method = bases[what]
    if not (isinstance(kind, type) and issubclass(kind, base)):
        return f"it is no class that derives from {base.__module__}.{base.__name__}."
    if getattr(kind, method) is getattr(base, method):
        return f"its class has no method {method}."
    if issubclass(kind, InstalledWhen) and name not in kind.model_fields:
        return f"its class has no field {name!r}, by which it is told from others."
    return None

"""
The kinds of steps, sources and rules that installed packages add. Pure.

A program says at its start how packages are found (dispatch/packages.py); they are
looked for once, when something names a kind that is not built in. Without a program
that says so, there are none. Light, for every command imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Refusal:
    """
    What an installed package wanted to add, and why it cannot.

    Args:
        package: Its name and version.

        name: Of the kind.

        what: "step", "source" or "when".

        reason: One sentence, for the operator.
    """

    package: str
    name: str
    what: str
    reason: str

    def describe(self) -> str:
        """Return all of it on one line."""
        return f"{self.what} {self.name!r} of package {self.package}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Packages:
    """
    What packages add, by name of the kind.

    Args:
        steps: Subclasses of models/extending.py: InstalledStep.

        sources: Subclasses of models/extending.py: InstalledSource.

        whens: Subclasses of models/when.py: InstalledWhen.

        origins: The package of each, by "step", "source" or "when", and name.

        refusals: What could not be added.
    """

    steps: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, Any] = field(default_factory=dict)
    whens: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[tuple[str, str], str] = field(default_factory=dict)
    refusals: tuple[Refusal, ...] = ()

    def explain_missing(self, what: str, name: str) -> str:
        """Return why there is no such kind, and what to do."""
        known = self.explain_refused(what, name)
        return known or "Install the package that adds it where this program runs."

    def explain_refused(self, what: str, name: str) -> str:
        """Return why a package that is installed cannot add it; "" if none wants to."""
        for refusal in self.refusals:
            if (refusal.what, refusal.name) == (what, name):
                return f"Package {refusal.package} cannot add it: {refusal.reason}"
        return ""


class _Registry:
    """Finds the packages when they are asked for, once."""

    def __init__(self) -> None:
        self._find: Callable[[], Packages] = Packages
        self._found: Packages | None = None

    def find_by(self, find: Callable[[], Packages]) -> None:
        """Let *find* look for packages, unless it has done so already."""
        if find is not self._find:
            self._find, self._found = find, None

    def get(self) -> Packages:
        """Return what packages add; the first call looks for them."""
        if self._found is None:
            self._found = self._find()
        return self._found


INSTALLED = _Registry()

"""What became of all entries of an origin. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from actions.importing.origins.imported import Imported, ImportVerdict
from models.door.documents import read_action_object
from models.errors import InvalidDocumentError, Problem
from models.fields.task_rules import NO_BROKER, TaskRules


@dataclass(frozen=True, slots=True)
class Report:
    """
    What became of all entries of an origin.

    Args:
        origin: Its name.
        entries: In its order.
        notes: What holds for all of them, as sentences.
        if_empty: Where to look if there are no entries, as a sentence.
    """

    origin: str
    entries: tuple[Imported, ...]
    notes: Sequence[str] = ()
    if_empty: str = ""

    def count(self, verdict: ImportVerdict) -> int:
        """Return how many entries have *verdict*."""
        return sum(entry.verdict is verdict for entry in self.entries)

    @property
    def documents(self) -> list[Mapping[str, JsonValue]]:
        """The documents, in order."""
        return [each.document for each in self.entries if each.document is not None]

    def find_obstacles(self, rules: TaskRules) -> Iterator[str]:
        """
        Yield why this installation would refuse documents, and how many of them.

        Args:
            rules: Where it lets ``run_task`` send tasks: a matter of its settings,
                which change; so a document is written all the same.
        """
        found: Counter[str] = Counter()
        for document in self.documents:
            try:
                read_action_object(dict(document), task_rules=rules)
            except InvalidDocumentError as error:
                found.update(_describe(each, rules) for each in error.problems)
        for message, number in found.items():
            yield f"{number} of {len(self.documents)} would be refused here: {message}"

    def as_json(self) -> dict[str, JsonValue]:
        """Return what ``--json`` shows."""
        return {
            "origin": self.origin,
            **{each.value: self.count(each) for each in ImportVerdict},
            "notes": list(self.notes),
            "entries": [each.as_json() for each in self.entries],
        }


def _describe(problem: Problem, rules: TaskRules) -> str:
    """Return why a document would be refused, and which option of the import helps."""
    hint = problem.hint
    if problem.message == NO_BROKER and rules.connections:
        known = rules.connections
        said = f" {known[0]}" if len(known) == 1 else f", one of: {', '.join(known)}"
        hint = f"Add --connection{said}."
    return f"{problem.message} {hint}".rstrip()

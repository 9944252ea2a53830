"""What became of all entries of an origin. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from actions.importing.origins.imported import Imported, ImportVerdict
from models.door.documents import read_action_object
from models.errors import InvalidDocumentError, Problem
from models.fields.task_rules import NO_BROKER, TaskRules
from models.json_form import ASIDE


@dataclass(frozen=True, slots=True)
class Report:
    """
    What became of all entries of an origin, as ``--json`` shows it.

    Args:
        origin: Its name.
        exact: How many entries are so.
        differs: As *exact*.
        cannot_be: As *exact*.
        notes: What holds for all of them, as sentences.
        entries: In its order.
        if_empty: Where to look if there are no entries, as a sentence.
    """

    origin: str
    exact: int
    differs: int
    cannot_be: int
    notes: tuple[str, ...]
    entries: tuple[Imported, ...]
    if_empty: str = field(default="", metadata=ASIDE)

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


def make_report(
    origin: str, entries: tuple[Imported, ...], *notes: str, if_empty: str = ""
) -> Report:
    """Return the report of *entries*; see Report."""
    counts = Counter(entry.verdict for entry in entries)
    exact, differs, cannot_be = (counts[verdict] for verdict in ImportVerdict)
    return Report(origin, exact, differs, cannot_be, notes, entries, if_empty)


def _describe(problem: Problem, rules: TaskRules) -> str:
    """Return why a document would be refused, and which option of the import helps."""
    hint = problem.hint
    if problem.message == NO_BROKER and rules.connections:
        known = rules.connections
        said = f" {known[0]}" if len(known) == 1 else f", one of: {', '.join(known)}"
        hint = f"Add --connection{said}."
    return f"{problem.message} {hint}".rstrip()

"""What a call of the command line answers, and a document to give it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: An example of ours.
WEEKLY = Path(__file__).parents[3] / "cli" / "examples" / "weekly-update.json"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The JSON on standard output."""
        return json.loads(self.out)


Call = Callable[..., Answer]
#: Takes variables by their names without our prefix.
Configure = Callable[..., None]
#: Takes options, and members of the action that are another.
Post = Callable[..., Answer]


def write_action(folder: Path, **document: Any) -> str:
    """Write an action, of which *document* is another, and return its path."""
    path = folder / "action.json"
    path.write_text(
        json.dumps(
            {
                "name": "hello",
                "uid": "hello",
                "operations": {"send_email": {"template": "inactive"}},
                "when": {"cron_rule": "0 7 * * *"},
                "recipients": {"groups": ["all"]},
                **document,
            }
        )
    )
    return str(path)

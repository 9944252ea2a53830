"""
maintenance: remove old rows and files, in batches with short transactions.

Rows that are needed to recognize an occurrence which may be decided again stay; see
operations/adapters/prune.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Literal

from operations.ports import StepContext, StepResult

#: Rows or files that one transaction removes, in well below a second.
BATCH = 500

#: The same for backfills, each of which has up to ten thousand occurrences.
BACKFILLS = 5

#: A file without a version is younger than this while a refresh writes it.
DRAFT_AGE = timedelta(days=1)

#: How long an answer is repeated: serving/access/repeats.py.
ANSWER_AGE = timedelta(days=1)


def maintenance(context: StepContext, asked: Literal[True]) -> StepResult:  # noqa: ARG001 - the shape of a step
    """
    Prune what is old of all apps: operations, revisions, events, versions, files, ...

    Returns:
        How many of each were removed.
    """
    now, retention = context.now, context.ports.retention
    tasks = _list_tasks(context)
    removed: dict[str, int] = {}
    for done, (name, prune) in enumerate(tasks.items()):
        removed[name] = 0
        batch = most = BACKFILLS if name == "backfills" else BATCH
        while batch >= most:
            context.progress(done, len(tasks) + 1, f"{name}: {removed[name]}")
            batch = prune(limit=most)
            removed[name] += batch
    context.progress(len(tasks), len(tasks) + 1, "leases")
    removed["leases"] = context.ports.prune.prune_leases(
        before=now - retention.operations
    )
    told = ", ".join(f"{count:,} {name}" for name, count in removed.items() if count)
    context.say(f"removed {told or 'nothing'}")
    context.progress(len(tasks) + 1, len(tasks) + 1)
    return {"removed": dict(removed)}


def _list_tasks(context: StepContext) -> Mapping[str, Callable[..., int]]:
    """Return what prunes a batch of each kind, in this order."""
    now, retention = context.now, context.ports.retention
    prune, workspace = context.ports.prune.prune, context.ports.workspace
    old = now - retention.operations
    return {
        "operations": partial(prune, "operations", before=old),
        "operations_below_minute": partial(
            prune, "operations_below_minute", before=now - retention.below_minute
        ),
        "revisions": partial(prune, "revisions", before=old),
        "mails": partial(prune, "mails", before=old),
        "events": partial(prune, "events", before=now - retention.events),
        "versions": partial(workspace.prune_versions, keep=retention.versions, now=now),
        "files": partial(workspace.prune_files, before=now - DRAFT_AGE),
        "answers": partial(prune, "answers", before=now - ANSWER_AGE),
        "sign_ins": partial(prune, "sign_ins", before=now),
        "bulk_changes": partial(prune, "bulk_changes", before=old),
        "backfills": partial(prune, "backfills", before=old),
    }

"""
maintenance: remove old rows and files, in batches with short transactions.

Rows that are needed to recognize an occurrence which may be decided again stay; see
operations/adapters/prune.py.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Literal

from operations.ports import StepContext, StepResult

#: Rows or files that one transaction removes, in well below a second.
BATCH = 500

#: The same for backfills, each of which has up to ten thousand occurrences.
BACKFILLS = 5

#: A file without a version is younger than this while a refresh writes it.
DRAFT_AGE = timedelta(days=1)

#: Answers that are older are not repeated any more: serving/access/repeats.py.
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
    for done, (name, prune_batch) in enumerate(tasks):
        removed[name] = 0
        batch = BATCH
        most = BACKFILLS if name == "backfills" else BATCH
        while batch >= most:
            context.progress(done, len(tasks) + 1, f"{name}: {removed[name]}")
            batch = prune_batch()
            removed[name] += batch
    context.progress(len(tasks), len(tasks) + 1, "leases")
    removed["leases"] = context.ports.prune.prune_leases(
        before=now - retention.operations
    )
    told = ", ".join(f"{count:,} {name}" for name, count in removed.items() if count)
    context.say(f"removed {told or 'nothing'}")
    context.progress(len(tasks) + 1, len(tasks) + 1)
    return {"removed": dict(removed)}


def _list_tasks(context: StepContext) -> tuple[tuple[str, Callable[[], int]], ...]:
    """Return what is pruned, in this order: its name, and what prunes a batch of it."""
    now, retention = context.now, context.ports.retention
    prune, workspace = context.ports.prune, context.ports.workspace
    return (
        (
            "operations",
            lambda: prune.prune_operations(
                before=now - retention.operations, limit=BATCH
            ),
        ),
        (
            # after the operations that were recorded with them
            "revisions",
            lambda: prune.prune_revisions(
                before=now - retention.operations, limit=BATCH
            ),
        ),
        (
            # after the operations whose mails they are
            "mails",
            lambda: prune.prune_mail_contents(
                before=now - retention.operations, limit=BATCH
            ),
        ),
        (
            "events",
            lambda: prune.prune_events(before=now - retention.events, limit=BATCH),
        ),
        (
            "versions",
            lambda: workspace.prune_versions(
                keep=retention.versions, now=now, limit=BATCH
            ),
        ),
        (
            "files",
            lambda: workspace.prune_files(before=now - DRAFT_AGE, limit=BATCH),
        ),
        (
            "answers",
            lambda: prune.prune_answers(before=now - ANSWER_AGE, limit=BATCH),
        ),
        ("sign_ins", lambda: prune.prune_sign_ins(before=now, limit=BATCH)),
        (
            "bulk_changes",
            lambda: prune.prune_bulk_changes(
                before=now - retention.operations, limit=BATCH
            ),
        ),
        (
            "backfills",
            lambda: prune.prune_backfills(
                before=now - retention.operations, limit=BACKFILLS
            ),
        ),
    )

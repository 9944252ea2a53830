"""
A prepared installation: small apps that have everything that a route can name.

Each text of an app that its admins write or that happened to it contains a mark of that
app, so that it is noticed wherever it turns up. Ids and uids have no mark: a caller who
guesses them gets them back in the words for what does not exist.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import polars as pl
import sqlalchemy as sa

from actions.posting.post import Posting, post_action
from actions.small_apps.apply import ApplyTerms, apply_small_app
from api.parameters import KNOWN
from models.database.engine import Author, db_now, read_clock, writing
from models.database.journal import note_change
from models.database.tables import (
    api_keys,
    backfill_occurrences,
    backfills,
    bulk_changes,
    deliveries,
    domain_versions,
    events,
    mail_contents,
    metadata,
    notices,
    operation_log,
    operations,
    processes,
    scheduled_actions,
    small_apps,
    users,
)
from models.door.documents import read_action_object
from models.operation_state import OperationState, Queue, Reason, Trigger
from models.role import Role
from models.small_app import SmallAppModel
from operations.adapters.workspace import RealWorkspace
from operations.domains import DomainDraft, Fingerprint, Reading
from operations.fleet.processes import drain_worker
from operations.ports import Claimant
from serving.access.callers import Caller
from serving.access.manage_keys import create_key
from serving.access.sign_ins import fetch_invitations, make_invitation
from tests.database import execute, write_by
from tests.integration.kept_rows import KeptRows
from tests.presence import give_sign, make_worker
from tests.scheduling import (
    MONDAY,
    add_log,
    add_mails,
    add_steps,
    edit,
    edit_action,
    make_operation,
    record_all,
)

_SPACE = UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")


@dataclass
class Prepared:
    """
    What one small app has.

    Args:
        mark: In every text of it.

        ids: What names each thing, by the name of the path or query parameter.

        operations: The id of an operation in each state.

        actions: Uids of scheduled actions, by what is special about them.

        others: Ids of whatever else is special.
    """

    app: str
    mark: str
    ids: dict[str, str] = field(default_factory=dict)
    operations: dict[str, UUID] = field(default_factory=dict)
    actions: dict[str, str] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)

    def find_ids(self, special: Mapping[str, str]) -> dict[str, str]:
        """Return what names each thing, with what is *special* of some of them."""
        named = {**self.operations, **self.actions, **self.others}
        return self.ids | {name: str(named[each]) for name, each in special.items()}


@dataclass(frozen=True)
class _Kept:
    """A prepared installation, to copy: preparing one takes longer than most tests."""

    apps: tuple[Prepared, Prepared]
    home: Path
    rows: KeptRows
    made_at: float

    @property
    def is_fresh(self) -> bool:
        """Whether what is said to have happened just now did."""
        return time.monotonic() - self.made_at < 300


#: By the keys that its database had before: a copy of one without them has none, too.
_kept: dict[tuple[str, bool, frozenset[str]], _Kept] = {}


def prepare_two(
    engine: sa.Engine, home: Path, *, is_documented: bool = False
) -> tuple[Prepared, Prepared]:
    """
    Make two small apps, shop and books, with everything in them; later, copy them.

    Args:
        engine: Of a database that has nothing, or keys of these apps.

        home: Of the installation; what lies beside it stays until the tests end.

        is_documented: As of `prepare`, of shop.
    """
    with engine.connect() as connection:
        keys = frozenset(connection.scalars(sa.select(api_keys.c.id)))
    kind = (engine.dialect.name, is_documented, keys)
    kept = _kept.get(kind)
    if kept is not None and kept.is_fresh:
        kept.rows.write(engine)
    else:
        made_at, folder = time.monotonic(), home.with_name(f"{home.name}-kept")
        books = prepare(engine, folder, "books", "Qbooksq")
        shop = prepare(engine, folder, "shop", "Qshopq", is_documented=is_documented)
        kept = _Kept((shop, books), folder, KeptRows.read(engine), made_at)
        _kept[kind] = kept
    shutil.copytree(kept.home / "workspace", home / "workspace")
    execute(engine, sa.update(processes).values(heartbeat_at=db_now()))
    return deepcopy(kept.apps)


def prepare(
    engine: sa.Engine, home: Path, app: str, mark: str, *, is_documented: bool = False
) -> Prepared:
    """
    Make the small app *app* with everything in it.

    Args:
        mark: A word that nothing else contains.

        is_documented: Whether its things have the ids that the OpenAPI document uses as
            examples. One app of an installation can have them.
    """
    made = Prepared(app, mark)
    if is_documented:
        made.ids |= {name: str(example) for name, (example, _) in KNOWN.items()}
    author = Author(f"admin {mark}", None, f"request {mark}")
    _apply(engine, home, made, author)
    _post_actions(engine, made, author)
    _record_operations(engine, made)
    _stage_data(engine, home, made)
    _record_rest(engine, made, author)
    _record_workers(engine, made)
    return made


def leave_one(engine: sa.Engine, made: Prepared) -> None:
    """Leave *made* alone in its installation, and of each thing one, if it can be."""
    kept: dict[sa.Column[Any], list[object]] = {
        users.c.id: ["ada"],
        operations.c.app: [made.app],
        deliveries.c.recipient: ["ada"],
        operation_log.c.number: [1],
        api_keys.c.id: [made.ids["key_id"]],
        scheduled_actions.c.uid: [made.actions["report"]],
        small_apps.c.uid: [made.app],
    }
    with writing(engine) as connection:
        connection.execute(
            sa.update(operations).values(action_uid=made.actions["report"])
        )
        connection.execute(sa.update(domain_versions).values(rows=1))
        for column, values in kept.items():
            connection.execute(sa.delete(column.table).where(column.not_in(values)))


def digest_tables(engine: sa.Engine, *, but: frozenset[str]) -> dict[str, str]:
    """Return a digest of the rows of each table, in any order of rows."""
    found = {}
    with engine.connect() as connection:
        for table in metadata.sorted_tables:
            if table.name not in but:
                rows = connection.execute(sa.select(table)).all()
                text = "\n".join(sorted(map(repr, rows)))
                found[table.name] = hashlib.sha256(text.encode()).hexdigest()
    return found


def _record_workers(engine: sa.Engine, made: Prepared) -> None:
    """Let two workers give a sign of life; they are those of all small apps."""
    made.ids["worker_id"] = str(KNOWN["worker_id"][0])
    made.others["drained worker"] = str(uuid5(_SPACE, "drained worker"))
    give_sign(engine, make_worker("a", id=UUID(made.ids["worker_id"])))
    give_sign(engine, make_worker("b", id=UUID(made.others["drained worker"])))
    drained = UUID(made.others["drained worker"])
    write_by(engine, drain_worker, drained, by="an operator", note=None)


def _make_id(made: Prepared, name: str) -> UUID:
    """Return a UUID that is the same in each run."""
    known = made.ids.get(name)
    return UUID(known) if known else uuid5(_SPACE, f"{made.app} {name}")


def _apply(engine: sa.Engine, home: Path, made: Prepared, author: Author) -> None:
    """Make the small app with its users, templates, domains and holidays."""
    folder = home / "sources" / made.app
    folder.mkdir(parents=True)
    mark = made.mark
    (folder / "sales.csv").write_text(f"n,word\n1,{mark}\n2,{mark}\n")
    document = {
        "uid": made.app,
        "name": f"Shop {mark}",
        "timezone": "Europe/Paris",
        "users": [
            {
                "id": name,
                "email": f"{name}.{mark}@example.org",
                "name": f"{name} {mark}",
                "groups": ["manager"] if name != "zoe" else [],
                "activated_at": "2026-01-01T00:00:00Z",
                "last_seen_at": "2026-01-01T00:00:00Z",
            }
            for name in ("ada", "ben", "zoe")
        ],
        "domains": [{"name": "sales", "source": {"file": "sales.csv"}}],
        "templates": {"report": {"subject": f"Report {mark}", "text": f"Hello {mark}"}},
        "documents": {"design": {"title": mark}, "permissions": {"title": mark}},
        "holidays": {"fr": ["2026-12-25"]},
        "notices": {"mail": [f"ops.{mark}@example.org"]},
    }
    with writing(engine, author=author) as connection:
        model = SmallAppModel.model_validate(document)
        apply_small_app(connection, model, ApplyTerms(folder, by=author.name))
        connection.execute(
            sa.insert(events).values(
                id=_make_id(made, "event_id"),
                app=made.app,
                name="app.bought",
                user_id="ada",
                at=MONDAY,
                recorded_at=MONDAY,
                source=f"urn:{mark}",
                source_id=f"id {mark}",
            )
        )
    made.others["zoe"] = "zoe"
    made.ids |= {
        "app": made.app,
        "user": "ada",
        "user_id": "ada",
        "group": "manager",
        "domain": "sales",
        "template": "report",
        "calendar": "fr",
        "event_id": str(_make_id(made, "event_id")),
    }


#: What is special about an action, and its document.
_ACTIONS: Mapping[str, dict[str, Any]] = {
    "report": {
        "operations": {"send_email": {"template": "report"}},
        "when": {"cron_rule": "0 7 * * 1", "timezone": "Europe/Paris"},
        "recipients": {"groups": ["all"]},
    },
    "heavy": {
        "operations": {"refresh": {"domains": ["sales"]}, "publish": {"data": True}},
        "when": {"cron_rule": "0 5 * * *"},
    },
    "publishing": {
        "operations": {"publish": {"data": True}},
        "when": {"cron_rule": "0 5 * * *"},
    },
    "event": {
        "operations": {"send_email": {"template": "report"}},
        "when": {"after": "app.bought", "delay": "P1D"},
    },
    **{
        kind: {
            "operations": {"run_task": {"name": "reports.make"}},
            "when": {"cron_rule": "0 5 * * *"},
        }
        for kind in ("paused", "quarantined", "yearly closing")
    },
}


def _post_actions(engine: sa.Engine, made: Prepared, author: Author) -> None:
    """Post actions of each kind, one of them twice."""
    for kind, document in _ACTIONS.items():
        uid = f"{made.app}-{kind}".replace(" ", "-")
        if kind == "report":
            uid = made.ids.get("uid", uid)
        made.actions[kind] = uid
        full = {"name": f"{kind} {made.mark}", "uid": uid, **document}
        versions = [full]
        if kind == "report":
            versions = [{**full, "when": {"cron_rule": "0 8 * * 1"}}, full]
        for version in versions:
            with writing(engine, author=author) as connection:
                post_action(
                    connection,
                    made.app,
                    read_action_object(version),
                    Posting(version is not versions[0], by=author.name),
                )
    paused = {
        "paused_at": MONDAY,
        "paused_by": author.name,
        "pause_note": f"until {made.mark} is back",
    }
    quarantined = {
        "quarantined_at": MONDAY,
        "quarantine_reason": f"bad rule {made.mark}",
        "next_due_at": None,
    }
    edit_action(engine, made.actions["paused"], **paused)
    edit_action(engine, made.actions["quarantined"], **quarantined)
    made.ids |= {
        "uid": made.actions["report"],
        "action": made.actions["report"],
        "revision": "1",
    }


def _record_operations(engine: sa.Engine, made: Prepared) -> None:
    """Record an operation in each state, with steps, mails and lines of its log."""
    now = MONDAY + timedelta(hours=8)
    for number, state in enumerate(OperationState):
        new = make_operation(
            number,
            action_uid=made.actions["report"],
            app=made.app,
            triggered_by=f"Scheduled action {made.mark}",
            trigger=Trigger.SCHEDULE,
            queue=Queue.QUICK,
            action_revision=2,
        )
        wanted = made.operations[state] = (
            _make_id(made, "operation_id")
            if state is OperationState.SUCCEEDED
            else _make_id(made, f"{state} operation")
        )
        record_all(engine, new)
        is_started = state in {"running", "succeeded", "failed"}
        is_final = state not in {"pending", "queued", "running"}
        values: dict[str, Any] = {
            "id": wanted,
            "state": state,
            "recorded_at": now,
            "send_at": now,
            "sent_at": None if state == "pending" else now,
            "started_at": now if is_started else None,
            "finished_at": now if is_final else None,
            "attempt": int(is_started),
            "worker": f"quick@{made.mark}" if is_started else None,
        }
        if state == "running":
            values |= {
                "claim_token": _make_id(made, "claim"),
                "lease_expires_at": MONDAY + timedelta(days=3650),
                "progress": {"done": 1, "total": 2, "note": made.mark},
            }
        if state in {"failed", "missed", "skipped", "canceled"}:
            values |= {"reason": _REASONS[state], "error": f"it broke: {made.mark}"}
        edit(engine, new.id, **values)
        if is_started:
            _add_details(engine, made, wanted, state)
    heavy = make_operation(
        100,
        action_uid=made.actions["heavy"],
        app=made.app,
        triggered_by=f"Scheduled action {made.mark}",
        queue=Queue.HEAVY,
    )
    record_all(engine, heavy)
    made.others["failed heavy"] = str(heavy.id)
    edit(
        engine,
        heavy.id,
        state="failed",
        reason=Reason.STEP_FAILED,
        error=f"no such file: {made.mark}",
        attempt=1,
        **dict.fromkeys(("send_at", "sent_at", "started_at", "finished_at"), now),
    )
    refresh = {"name": "refresh", "state": "failed", "attempt": 1}
    publish = {"name": "publish", "state": "pending", "attempt": 0}
    add_steps(engine, heavy.id, refresh, publish)
    made.ids["operation_id"] = str(made.operations[OperationState.SUCCEEDED])
    made.ids |= dict.fromkeys(("operation", "same_as"), made.ids["operation_id"])


_REASONS = {
    "failed": Reason.STEP_FAILED,
    "missed": Reason.OUTAGE,
    "skipped": Reason.OVERLAP,
    "canceled": Reason.CANCELED,
}


def _add_details(
    engine: sa.Engine, made: Prepared, operation_id: UUID, state: str
) -> None:
    """Add a step, mails in each state, and a log to an operation."""
    mark = made.mark
    step: dict[str, Any] = {"name": "send_email", "attempt": 1, "started_at": MONDAY}
    match state:
        case "running":
            step |= {"state": "running"}
        case "failed":
            ended = {"finished_at": MONDAY, "error": f"no such host: {mark}"}
            step |= {"state": "failed", **ended}
        case _:
            ended = {"finished_at": MONDAY, "result": {"sent": 1}}
            step |= {"state": "succeeded", **ended}
    add_steps(engine, operation_id, step)
    content = {"subject": f"Hello {mark}", "text": f"Hi {mark}", "html": f"<p>{mark}"}
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    with writing(engine) as connection:
        found = sa.select(mail_contents).where(mail_contents.c.digest == digest)
        if connection.execute(found).one_or_none() is None:
            values = {"digest": digest, "used_at": MONDAY, **content}
            connection.execute(sa.insert(mail_contents).values(values))
    lost = {"ada": "uncertain", "ben": "failed"}
    of: dict[str, Any] = {"app": made.app, "content": digest}
    add_mails(engine, operation_id, lost, error=f"refused by {mark}", **of)
    add_mails(engine, operation_id, {"zoe": "sent"}, **of)
    add_log(engine, operation_id, [f"line {number} {mark}" for number in range(3)])
    made.ids |= {"step": "send_email", "recipient": "ada"}


def _stage_data(engine: sa.Engine, home: Path, made: Prepared) -> None:
    """Stage three versions of the domain and publish two, so that one can go back."""
    workspace = RealWorkspace(engine, home / "workspace", most_bytes=1 << 30)

    def hold(_connection: sa.Connection) -> None:
        """Be the guard of a claim that holds."""

    done = made.operations[OperationState.SUCCEEDED]
    by = Claimant(made.app, done, MONDAY, hold)
    for number in range(3):
        path = workspace.draft_path(made.app, "sales")
        frame = pl.DataFrame({"n": list(range(number + 2)), "word": made.mark})
        frame.write_parquet(path)
        reading = Reading(number + 2, Fingerprint(source="d", etag=made.mark))
        workspace.stage(by, [DomainDraft("sales", path, reading)])
        if number < 2:
            workspace.publish(by, ("data",))
    made.ids["version"] = "1"


def _record_rest(engine: sa.Engine, made: Prepared, author: Author) -> None:
    """Add a backfill, a bulk change, a key, a cause of failures, and a change."""
    mark = made.mark
    backfill, bulk = _make_id(made, "backfill_id"), _make_id(made, "bulk_id")
    with writing(engine, author=author) as connection:
        now = read_clock(connection)
        connection.execute(
            sa.insert(backfills).values(
                id=backfill,
                app=made.app,
                action_uid=made.actions["report"],
                from_at=MONDAY - timedelta(days=30),
                until_at=MONDAY,
                which="missing",
                total=1,
                at_once=1,
                note=f"after the move of {mark}",
                requested_by=author.name,
                created_at=now,
            )
        )
        connection.execute(
            sa.insert(backfill_occurrences).values(
                backfill_id=backfill,
                occurrence=MONDAY - timedelta(days=7),
                operation_id=_make_id(made, "occurrence"),
            )
        )
        connection.execute(
            sa.insert(bulk_changes).values(
                id=bulk,
                app=made.app,
                kind="pause",
                filter={"text": mark},
                arguments={"note": f"because of {mark}"},
                requested_by=author.name,
                request_id=author.request_id,
                created_at=now,
                total=1,
                refused={},
                # Another process is at it.
                claim_token=_make_id(made, "claim"),
                lease_expires_at=now + timedelta(days=1),
            )
        )
        connection.execute(
            sa.insert(notices).values(
                id=_make_id(made, "notice"),
                scope=made.app,
                kind="failed",
                cause_key=f"key {mark}",
                cause=f"cause {mark}",
                opened_at=now,
                last_at=now,
                count=1,
                untold=0,
                actions={},
                examples=[],
            )
        )
        new = create_key(
            connection, app=made.app, role=Role.VIEWER, name=f"laptop of {mark}"
        )
        for number in range(1, 4):
            spare = create_key(connection, app=made.app, role=Role.VIEWER, name=mark)
            made.others[f"key {number}"] = spare.id
        empty = f"{made.app}-empty"
        connection.execute(
            sa.insert(small_apps).values(uid=empty, name=f"empty {mark}")
        )
        made.others["empty app"] = empty
        guest = Caller(None, f"eve (invited by {author.name})", Role.VIEWER, made.app)
        make_invitation(connection, guest, now + timedelta(days=1))
        (invited,) = fetch_invitations(connection, made.app)
        key_id = made.ids.get("key_id", new.id)
        connection.execute(
            sa.update(api_keys).where(api_keys.c.id == new.id).values(id=key_id)
        )
        note_change(
            connection,
            "action",
            made.actions["report"],
            "renamed",
            app=made.app,
            before={"name": f"old {mark}"},
            after={"name": f"new {mark}"},
            note=f"note {mark}",
        )
    made.ids |= {
        "backfill_id": str(backfill),
        "bulk_id": str(bulk),
        "key_id": key_id,
        "invitation_id": invited.id,
        "number": "1",
    }

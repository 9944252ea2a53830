"""
What an action names that its small app does not have.

Nothing is refused for it: a small app may be applied after its actions. But a name
that is mistyped fails at the run, or reaches nobody, so its author is told at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import sqlalchemy as sa

from actions.listing import fetch_domains, fetch_groups, fetch_names
from models.document import find_near, show
from models.errors import Problem
from models.operation import PublishModel
from models.recipients import EVERYONE
from models.scheduled_action import ScheduledActionModel
from models.tables import users

#: Names that are told of, one a line, and that a hint lists.
_MOST = 10

#: Users that a mistyped one is compared with: some 30 ms.
_COMPARED = 1000


def find_unknown(
    connection: sa.Connection, app: str, action: ScheduledActionModel
) -> list[Problem]:
    """
    Return what *action* names that *app* does not have now, in the order of its steps.

    Args:
        connection: Only read.

        app: Uid of a small app.

        action: As the door read it.

    Returns:
        A problem for each template, domain, user and group that *app* does not
        have, and for each kind to publish of which it has nothing.
    """
    asked, who = action.operations, action.recipients
    domains = [row.name for row in fetch_domains(connection, app)]
    names = fetch_names(connection, app)
    found: list[Problem] = []
    if asked.refresh is not None:
        wanted = _place("/operations/refresh/domains", asked.refresh.domains or ())
        found += _find_missing(wanted, domains, f"small app {app!r} has no domain")
    if asked.publish is not None:
        parts = {*names["documents"], *(["data"] if domains else [])}
        found += _find_unpublishable(app, asked.publish, parts)
    if asked.send_email is not None:
        wanted = {"/operations/send_email/template": asked.send_email.template}
        said = f"small app {app!r} has no template"
        found += _find_missing(wanted, names["templates"], said)
    if who is not None:
        wanted = _place("/recipients/users", who.users)
        known = _fetch_users(connection, app, who.users)
        found += _find_missing(wanted, known, f"small app {app!r} has no user")
        wanted = _place("/recipients/groups", who.groups)
        known = [EVERYONE, *fetch_groups(connection, app)]
        found += _find_missing(wanted, known, f"nobody of {app!r} is in group")
    return found


def _place(pointer: str, names: Sequence[str]) -> dict[str, str]:
    """Return each of *names* under its place in the list at *pointer*."""
    return {f"{pointer}/{n}": name for n, name in enumerate(names)}


def _find_missing(
    wanted: Mapping[str, str], known: Sequence[str], said: str
) -> Iterator[Problem]:
    """Yield a problem for each of *wanted* that is not *known*, up to a bound."""
    there_is = set(known)
    missing = [each for each in wanted.items() if each[1] not in there_is]
    for pointer, name in missing[:_MOST]:
        yield Problem(pointer, f"{said} {show(name)}.", _make_hint(name, known))
    for pointer, _ in missing[_MOST : _MOST + 1]:
        yield Problem(pointer, f"{len(missing) - _MOST:,} more are unknown.", "")


def _make_hint(name: str, known: Sequence[str]) -> str:
    """Offer what is near *name*, or else what there is."""
    near = find_near(name, known)
    if near is not None:
        return f"Did you mean '{near}'?"
    if not known:
        return "There is none yet: apply the app (minutehand apps apply)."
    listed = ", ".join(known[:_MOST])
    return f"There is: {listed}{', ...' if len(known) > _MOST else ''}."


def _find_unpublishable(
    app: str, asked: PublishModel, parts: Collection[str]
) -> Iterator[Problem]:
    """Yield a problem for each kind that *app* has nothing of, unless all is asked."""
    kinds = [kind for kind in PublishModel.model_fields if getattr(asked, kind)]
    missing = [kind for kind in kinds if kind not in parts]
    if len(kinds) == len(PublishModel.model_fields):
        if len(missing) == len(kinds):
            text = f"small app {app!r} has neither domains nor documents to publish."
            yield Problem("/operations/publish", text, "Apply some first.")
        return
    for kind in missing:
        what = "domain" if kind == "data" else f"document {kind!r}"
        text = f"small app {app!r} has no {what} to publish."
        yield Problem(f"/operations/publish/{kind}", text, "Apply one first.")


def _fetch_users(
    connection: sa.Connection, app: str, wanted: Sequence[str]
) -> list[str]:
    """Return ids and addresses of *app*: those of *wanted* it has, and some others."""
    if not wanted:
        return []
    of_app = sa.select(users.c.id, users.c.email).where(users.c.app == app)
    named = sa.or_(users.c.id.in_(wanted), users.c.email.in_(wanted))
    others = of_app.order_by(users.c.id).limit(_COMPARED)
    rows = [*connection.execute(of_app.where(named)), *connection.execute(others)]
    return list(dict.fromkeys(each for row in rows for each in row if each))

"""The commands ``keys create|list|revoke|rotate|link|invitations``."""

from __future__ import annotations

import sys
from typing import Annotated

import sqlalchemy as sa

from actions.lookup import fetch_app
from cli.connection import (
    ask_database,
    change_database,
    get_actor,
    get_settings,
    read_database,
    write_database,
)
from cli.options import (
    AppOption,
    LimitOption,
    argument,
    naming,
    option,
    read_options,
    takes_json,
    value,
)
from cli.output import err, format_both, out
from models.errors import NotFoundError, UsageError
from models.fields.duration import Duration
from models.paging import Page
from models.role import Role
from serving.access.callers import Caller
from serving.access.key_documents import (
    DEFAULT_LIFETIME,
    DEFAULT_OVERLAP,
    ENDLESS,
    INVITED_FOR,
    InvitationModel,
    NewKey,
    NewKeyModel,
    ShownInvitation,
    ShownKey,
    parse_lifetime,
)
from serving.access.manage_keys import (
    create_key,
    fetch_key,
    fetch_keys,
    invite,
    revoke_key,
    rotate_key,
)
from serving.access.sign_ins import (
    LINK_COMMAND,
    fetch_invitations,
    make_address,
    make_link,
    revoke_invitation,
)

_IdArgument = Annotated[str, argument("ID", "Id of a key: mh_<ID>_...")]
_RoleOption = Annotated[Role | None, option("--role", "What it lets them do. Needed.")]
_AllOption = Annotated[bool, option("--all", "All small apps, instead of one.")]


@takes_json
def create(
    *,
    role: _RoleOption = None,
    app: AppOption = None,
    all_: _AllOption = False,
    name: Annotated[str | None, option("--name TEXT", "What it is for.")] = None,
    expires: str = value(
        "--expires DURATION",
        f"Its life, such as P30D, or {ENDLESS}.",
        default=str(DEFAULT_LIFETIME),
    ),
) -> None:
    """
    Create an API key, and print it this once.

    Only its digest is stored, so a key that was lost cannot be shown again.
    """
    role = _demand(role, app, all_, "minutehand keys create --app shop --role editor")
    life = None if expires == ENDLESS else expires
    asked = read_options(NewKeyModel, role=role, name=name, expires=life)
    lifetime = None if life is None else asked.lifetime
    new = change_database(
        create_key, app=app, role=role, name=asked.name, lifetime=lifetime
    )
    _print_new(new)


@takes_json
def list_keys(*, app: AppOption = None, limit: LimitOption = 200) -> None:
    """
    List API keys, also those that have ended.

    The latest comes first. The last use is known to the minute.
    """
    with read_database() as connection:
        found = fetch_keys(connection, app=app, page=Page(limit)).entries
    out().listed(
        found,
        lambda each: {
            "id": each.id,
            "app": each.app or "(all)",
            "role": each.role,
            "name": each.name or "-",
            "state": each.state,
            "last used": format_both(each.last_used_at, dash="never"),
            "expires": format_both(each.expires_at, dash="never"),
        },
        spare=("role", "last used"),
        empty="No keys. Create one: minutehand keys create --all --role admin",
    )


@takes_json
def revoke(key: _IdArgument) -> None:
    """
    Revoke an API key, or an invitation by its id: from now on it is refused.

    Whoever signed in at the pages with it is signed out.
    """
    revoked: ShownKey | ShownInvitation
    with write_database() as connection:
        try:
            revoked = revoke_invitation(connection, key)
        except NotFoundError as error:
            try:
                revoked = revoke_key(connection, _read_id(key))
            except NotFoundError as of_keys:
                msg = f"{error}, and {of_keys}, or keys invitations"
                raise NotFoundError(msg) from None
    if out().gave_json(revoked):
        return
    if isinstance(revoked, ShownInvitation):
        out().say(f"The invitation of {revoked.name} was revoked")
    else:
        out().say(
            f"{_describe(revoked)} was revoked at {format_both(revoked.revoked_at)}"
            f" by {revoked.revoked_by}"
        )


@takes_json
def rotate(
    key: _IdArgument,
    *,
    overlap: str = value(
        "--overlap DURATION",
        "How long the old one goes on.",
        default=str(DEFAULT_OVERLAP),
    ),
) -> None:
    """
    Replace an API key: print its successor, and let it end after a while.

    The successor has the same small app, role and name. PT0S ends the old key at once.
    """
    with naming("--overlap"):
        both_for = Duration.parse(overlap)
    with write_database() as connection:
        new = rotate_key(connection, _read_id(key), overlap=both_for)
        old = fetch_key(connection, new.replaces or "")
    _print_new(new)
    if not out().wants_json:
        err().say(f"Key {old.id} is taken until {format_both(old.expires_at)}.")


def link(
    *,
    role: _RoleOption = None,
    app: AppOption = None,
    all_: _AllOption = False,
    invite_: str | None = value("--invite NAME", "A colleague, to one small app."),
    expires: str | None = value(
        "--expires DURATION",
        f"Life of an invitation, P30D at most; {INVITED_FOR} if not given.",
    ),
) -> None:
    """
    Print a link that signs somebody in at the pages, once.

    It works for 15 minutes; the session that follows lasts for 12 hours. That of an
    invitation works until its end, and so does the session. It is printed to a terminal
    alone: whoever reads a log could sign in by it.
    """
    role = _demand(role, app, all_, LINK_COMMAND)
    if (invite_ is None and expires is not None) or (invite_ is not None and all_):
        raise UsageError(
            "an invitation is for one small app, and --expires is of an invitation:"
            " minutehand keys link --app shop --role viewer --invite zoe@example.com"
        )
    if not sys.stdout.isatty():
        raise UsageError(
            "standard output is no terminal, and whoever reads what is kept of it could"
            " sign in. Call this in a terminal (ssh -t, docker exec -it,"
            " kubectl exec -it)."
        )
    settings = get_settings()
    if settings.web_url is None and not settings.web_port:
        raise UsageError(
            "it is not known where the pages are: MINUTEHAND_WEB_ADDRESS names no port."
            " Set MINUTEHAND_WEB_URL."
        )
    url = settings.make_web_url(settings.web_port)
    if app is not None:
        ask_database(fetch_app, app)
    if invite_ is None or app is None:
        out().print(make_link_here(url, role=role, app=app), soft_wrap=True)
        return
    with naming("--expires"):
        life = str(parse_lifetime(expires or str(INVITED_FOR)))
    with naming("--invite"):
        wanted = InvitationModel(role=role, app=app, name=invite_, expires=life)
    new = change_database(invite, wanted)
    out().print(make_address(url, new.text), soft_wrap=True)
    err().say(
        f"For {new.name}, {new.role} of small app {new.app}: once, and until"
        f" {format_both(new.expires_at)}. It is not shown again."
    )


@takes_json
def invitations(*, app: AppOption = None) -> None:
    """
    List invitations that have not ended, used or not.

    The latest comes first.
    """
    found = ask_database(fetch_invitations, app)
    out().listed(
        found,
        lambda each: {
            "id": each.id,
            "for": each.name,
            "app": each.app,
            "role": each.role,
            "came in": format_both(each.used_at, dash="not yet"),
            "ends": format_both(each.expires_at),
        },
        empty="No invitations. Make one:"
        " minutehand keys link --app APP --role viewer --invite NAME",
    )


def _demand(role: Role | None, app: str | None, is_all: bool, example: str) -> Role:  # noqa: FBT001
    """Return the role; refuse a call that does not say whom it is for, and what."""
    if role is None or is_all == (app is not None):
        raise UsageError(
            "say whom it is for, either --app UID or --all, and what it lets them do:"
            f" --role {'|'.join(Role)}. For example: {example}"
        )
    return role


def _print_new(new: NewKey) -> None:
    """Print a new key alone, for scripts; what people should know goes elsewhere."""
    if out().gave_json(new):
        return
    out().print(new.text, soft_wrap=True)
    ends = format_both(new.expires_at, dash="never")
    err().say(f"{_describe(new)}, expires: {ends}. It is not shown again.")


def _describe(key: ShownKey) -> str:
    whose = "all small apps" if key.app is None else f"small app {key.app}"
    called = "" if key.name is None else f" ({key.name})"
    return f"Key {key.id}{called}, {key.role} of {whose}"


def _read_id(text: str) -> str:
    """Return the id in *text*, which may be how a key begins, as lists show it."""
    return text.removeprefix("mh_").partition("_")[0] if "_" in text else text


def make_link_here(
    url: str,
    *,
    role: Role = Role.ADMIN,
    app: str | None = None,
    engine: sa.Engine | None = None,
) -> str:
    """
    Return a link that signs in once, as whoever calls this command.

    For a terminal alone: logs are read by many.

    Args:
        url: Where the pages are.
        role: What it lets them do.
        app: Uid of the only small app that it lets them see. None: all.
        engine: Of the installation. None: that of the settings.
    """
    # The demo, which has an engine of its own, does not read the environment.
    name = get_actor() if engine is None else "the demo"
    with write_database(engine) as connection:
        secret = make_link(connection, Caller(None, name, role, app))
    return make_address(url, secret)


def tell_how_to_sign_in(url: str) -> None:
    """Print a link to the pages at *url* for whoever sits at the terminal."""
    if sys.stderr.isatty():
        err().say(f"To sign in, once and within 15 minutes: {make_link_here(url)}")
    else:
        err().say(f"To sign in, in a terminal: {LINK_COMMAND}")

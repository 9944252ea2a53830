"""To make a small app, change what belongs to it, export and delete it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import sqlalchemy as sa
from starlette.responses import Response

from actions.lookup import fetch_app
from actions.small_apps.apply import ApplyTerms, apply_small_app
from actions.small_apps.change_users import (
    NO_TAG,
    delete_user,
    patch_user,
    replace_user,
)
from actions.small_apps.check_settings import check_settings
from actions.small_apps.delete import delete_small_app
from actions.small_apps.export import fetch_document, fetch_known_user
from models.door.app_documents import read_small_app_object, read_user_object
from models.errors import InvalidDocumentError, NotFoundError, Problem, UsageError
from models.json_form import write_json
from overview.small_apps import fetch_detailed_app
from serving.context import Admin, Context, Editor
from serving.guarding import heavy
from web.apps.app_parts import (
    NEW_APP,
    PARTS,
    AppPart,
    Entries,
    Entry,
    PartField,
    find_pointer,
    list_entries,
    make_document,
    place_problems,
    read_entry,
    show_entry,
)
from web.forms import Form, give_file, go_to, read_number
from web.guarding import make_router
from web.questions import after_question

router = make_router()


def _path(app: str, rest: str = "") -> str:
    return f"/apps/{quote(app, safe='')}{rest}"


# --------------------------------------------------------------- a whole small app


def _ask_new(context: Context, form: Form) -> tuple[str, dict[str, Any]]:
    """Ask what a new small app is called."""
    context.caller.demand_installation("a new small app")
    return "apps/part.html", {"place": _Place("", "", ""), "form": form, "seen": "0"}


@after_question(router, "/apps/_new", _ask_new)
def make(context: Editor, form: Form) -> Response:
    """Make a small app."""
    context.caller.demand_installation("a new small app")
    model = read_small_app_object(read_entry(NEW_APP.fields, form, {}))
    terms = ApplyTerms(by=context.caller.name, expected_revision=0)
    context.change(apply_small_app, model, terms)
    return go_to(_path(model.uid), f"Made {model.name or model.uid}.")


@router.get("/apps/{app}/document")
@heavy
def export(context: Editor, app: str) -> Response:
    """Give the whole document of a small app, as a file."""
    document = context.fetch(fetch_document, app)
    return give_file(f"{app}.json", write_json(document, indent=2))


_APP_LOSS = (
    "Its actions and API keys end; its history is kept. Its uid stays taken: to make it"
    " again brings it back with its users and data, but without its actions and keys."
)


def _ask_delete(context: Context, app: str) -> tuple[str, dict[str, Any]]:
    found = context.fetch(fetch_detailed_app, app)
    title = f"Delete small app {found.uid!r}"
    return "apps/delete.html", {"title": title, "loss": _APP_LOSS, "back": _path(app)}


@after_question(router, "/apps/{app}/delete", _ask_delete)
def delete(context: Admin, app: str) -> Response:
    """Delete a small app."""
    gone = context.change(delete_small_app, app, by=context.caller.name)
    return go_to("/apps", gone.told)


# --------------------------------------------------------------- one of its entries


@dataclass(frozen=True, slots=True)
class _Place:
    """
    An entry of a part of a small app.

    Args:
        app: Uid. Empty: it is to be made.
        name: Of the entry. Empty: it is to be a new one, or there is only one.
    """

    app: str
    key: str
    name: str

    @property
    def part(self) -> AppPart:
        """The part that it is an entry of."""
        return PARTS[self.key] if self.app else NEW_APP

    @property
    def is_new(self) -> bool:
        """Whether it is to be made."""
        return not self.name and self.key != "settings"

    @property
    def fields(self) -> Sequence[PartField]:
        """Those that are asked; what is known is not renamed: actions name it."""
        return self.part.fields[1:] if self.name else self.part.fields

    def read_name(self, form: Form) -> str:
        """Return the name of the entry, which a new one gets from its form."""
        key = self.part.fields[0].path
        return self.name or (form.get(key) if self.is_new else "")

    @property
    def back(self) -> str:
        """Where it is listed."""
        if not self.app:
            return "/apps"
        return _path(self.app, "/users" if self.key == "users" else "")

    @property
    def title(self) -> str:
        """What the form does, in words."""
        if not self.app:
            return "Make a small app"
        if self.is_new:
            return f"Add a {self.part.noun} to {self.app}"
        return f"Change {self.part.noun} {self.name}".rstrip() + f" of {self.app}"


def _find_place(context: Context, app: str, part: str) -> _Place:
    """
    Return the entry that a request is about.

    Raises:
        NotFoundError: No small app of the caller has such a part.
    """
    if part not in PARTS:
        raise NotFoundError(f"a small app has no {part[:100]!r}")
    return _Place(app, part, context.request.query_params.get("name", ""))


def _fetch(connection: sa.Connection, place: _Place) -> tuple[Entry, str, Entries]:
    """
    Return an entry, what tells whether it has changed since, and all entries.

    Raises:
        NotFoundError: There is no such app, or entry.
    """
    if place.key == "users":
        if place.is_new:
            return {}, NO_TAG, {}
        user = fetch_known_user(connection, place.app, place.name)
        return user.as_document(), user.tag, {}
    seen = str(fetch_app(connection, place.app).revision)
    document = fetch_document(connection, place.app, with_users=False)
    entries = list_entries(document, place.key)
    if not place.is_new and place.name not in entries:
        msg = f"small app {place.app!r} has no {place.part.noun} {place.name!r}"
        raise NotFoundError(msg)
    return entries.get(place.name, {}), seen, entries


def _ask_entry(
    context: Context, form: Form, app: str, part: str
) -> tuple[str, dict[str, Any]]:
    """Show the fields of an entry, with what was typed or is stored."""
    place = _find_place(context, app, part)
    with context.reading() as connection:
        fetch_app(connection, app)
        entry, seen, _ = _fetch(connection, place)
    return "apps/part.html", {
        "place": place,
        "form": form if form.has("seen") else show_entry(place.part, entry),
        # Whoever sends it once more has been told what others did.
        "seen": seen,
        "gone": _name_deletion(place),
    }


@after_question(router, "/apps/{app}/parts/{part}", _ask_entry)
@heavy
def save_entry(context: Editor, form: Form, app: str, part: str) -> Response:
    """Add or change an entry."""
    place = _find_place(context, app, part)
    doubts = context.change(_save, context, place, form)
    name = place.read_name(form)
    told = f"Saved {place.part.noun} {name}" if name else f"Saved {place.part.noun}"
    return go_to(place.back, " ".join([f"{told}.", *doubts]))


def _save(
    connection: sa.Connection, context: Context, place: _Place, form: Form
) -> list[str]:
    """
    Store an entry; return what may be wrong with it all the same.

    Raises:
        MinutehandError: As the functions that store; nothing is stored.
    """
    name = place.read_name(form)
    if place.key == "users":
        _save_user(connection, place, form, name)
        return []
    stored, _, entries = _fetch(connection, place)
    if place.is_new and name in entries:
        said = f"There is a {place.part.noun} {name!r} already."
        problem = Problem("/name", said, "Change that one, or choose another name.")
        raise InvalidDocumentError((problem,))
    entries[name] = read_entry(place.fields, form, stored)
    known = context.services.settings
    try:
        model = read_small_app_object(make_document(place.app, place.key, entries))
        checked = check_settings(
            model,
            known.sql_connections,
            known.mail_sender_hosts,
            known.webhook_allowed_hosts,
        )
        doubts = [each.message for each in checked]
        apply_small_app(connection, model, _make_terms(context, form))
    except InvalidDocumentError as error:
        pointer = find_pointer(place.key, entries, name)
        raise place_problems(place.part, pointer, error) from None
    return doubts


def _save_user(connection: sa.Connection, place: _Place, form: Form, name: str) -> None:
    seen, raised = form.get("seen"), form.has("raise_events")
    entry = read_entry(place.fields, form, {})
    try:
        if place.is_new:
            given = {key: value for key, value in entry.items() if value is not None}
            user = read_user_object(given, user_id=name)
            replace_user(
                connection, place.app, user, expected_tag=NO_TAG, raise_events=raised
            )
            return
        patch_user(
            connection, place.app, name, entry, expected_tag=seen, raise_events=raised
        )
    except InvalidDocumentError as error:
        raise place_problems(place.part, "", error) from None


def _make_terms(context: Context, form: Form) -> ApplyTerms:
    """
    Return how a document is applied that somebody has made from what they saw.

    Raises:
        UsageError: The form does not say what that was.
    """
    seen = read_number(form.get("seen"))
    if not isinstance(seen, int):
        raise UsageError("This is not the form of the page. Load the page again.")
    return ApplyTerms(by=context.caller.name, expected_revision=seen, may_create=False)


def _ask_delete_entry(
    context: Context, app: str, part: str
) -> tuple[str, dict[str, Any]]:
    """Ask before an entry is deleted."""
    place = _find_place(context, app, part)
    if not place.name:
        raise NotFoundError("Nothing is named that could be deleted.")
    _, seen, _ = context.fetch(_fetch, place)
    return "apps/delete.html", {
        "title": f"Delete {place.part.noun} {place.name!r} of {place.app!r}",
        "loss": place.part.loss,
        "seen": seen,
        "action": _name_deletion(place),
        "back": place.back,
    }


@after_question(router, "/apps/{app}/parts/{part}/delete", _ask_delete_entry)
@heavy
def delete_entry(context: Editor, form: Form, app: str, part: str) -> Response:
    """Delete an entry."""
    place = _find_place(context, app, part)
    with context.writing() as connection:
        _, _, entries = _fetch(connection, place)
        if place.key == "users":
            delete_user(connection, app, place.name, expected_tag=form.get("seen"))
        else:
            del entries[place.name]
            model = read_small_app_object(make_document(app, part, entries))
            apply_small_app(connection, model, _make_terms(context, form))
    return go_to(place.back, f"Deleted {place.part.noun} {place.name}.")


def _name_deletion(place: _Place) -> str:
    name = urlencode({"name": place.name})
    return _path(place.app, f"/parts/{place.key}/delete?{name}")

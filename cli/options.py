"""Options and arguments that several commands share; what a shell offers after TAB."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints
from uuid import UUID

import sqlalchemy as sa
import typer
from pydantic import BaseModel, ValidationError

from actions.lookup import Suggestion, suggest_actions, suggest_apps
from cli.connection import ask_database, peek_at_database
from cli.output import err, out
from models.database.engine import read_host_clock
from models.database.lists import SHOWN_DIGITS
from models.door.places import place_all
from models.errors import InvalidDocumentError, RuleError, UsageError
from models.fields.instants import format_instant, parse_typed_instant
from models.fields.strict_model import make_complaint, say
from models.operation_state import OperationState, Queue, Reason
from models.requests.notes import NoteModel, PauseModel
from operations.state import find_operation_id
from overview.suggestions import suggest_operations, suggest_workers

_Model = TypeVar("_Model", bound=BaseModel)
_Result = TypeVar("_Result")

#: How long a TAB may take to ask the database.
_DEADLINE_S = 1.0


def complete_app(incomplete: str) -> list[tuple[str, str]]:
    """Return the small apps whose uid begins with *incomplete*."""
    return _ask(lambda connection: suggest_apps(connection, incomplete))


def complete_action(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the actions whose uid or name so begins, of ``--app`` if that is given."""
    app = ctx.params.get("app")
    return _ask(lambda connection: suggest_actions(connection, incomplete, app=app))


def complete_operation(incomplete: str) -> list[tuple[str, str]]:
    """Return the ids of the latest operations that begin with *incomplete*."""
    return _ask(lambda connection: suggest_operations(connection, incomplete))


def complete_worker(incomplete: str) -> list[tuple[str, str]]:
    """Return the workers whose name begins with *incomplete*."""
    return _ask(lambda connection: suggest_workers(connection, incomplete))


def _ask(
    suggest: Callable[[sa.Connection], Sequence[Suggestion]],
) -> list[tuple[str, str]]:
    """Return what *suggest* finds within the deadline, each with a help text."""
    found: list[tuple[str, str]] = []

    def look() -> None:
        # Whatever is wrong, the command itself will say.
        with suppress(Exception), peek_at_database() as connection:
            found.extend(suggest(connection))

    # A thread, since no time limit of a driver holds while it looks up a host's name.
    asking = threading.Thread(target=look, daemon=True)
    asking.start()
    asking.join(_DEADLINE_S)
    return list(found)


def option(spelled: str, told: str, **more: Any) -> Any:
    """Return an option as it is *spelled*, with what stands for its value; and help."""
    name, _, metavar = spelled.partition(" ")
    more.setdefault("default", ...)
    return typer.Option(
        more.pop("default"), name, metavar=metavar or None, help=told, **more
    )


def value(spelled: str, told: str, *, default: Any = None, **more: Any) -> Any:
    """Return an option as the default of a parameter; left out, it is *default*."""
    return option(spelled, told, default=default, **more)


def flag(spelled: str, told: str) -> Any:
    """Return the same of a switch, which is off."""
    return value(spelled, told, default=False)


def argument(metavar: str, told: str, **more: Any) -> Any:
    """Return the argument *metavar*, of which *told* is the help."""
    return typer.Argument(metavar=metavar, help=told, **more)


def app_option(help_text: str) -> Any:
    """Return the option ``--app``, which says by *help_text* what it is for."""
    return option("--app UID", help_text, autocompletion=complete_app)


def app_argument(help_text: str) -> Any:
    """Return the argument APP, which says by *help_text* what it is for."""
    return argument("APP", help_text, autocompletion=complete_app)


LimitOption = Annotated[int, option("--limit", "The most to list.", min=1, max=100_000)]
AppOption = Annotated[str | None, app_option("Uid of a small app.")]
OwnerOption = Annotated[str, app_option("Small app that the actions belong to.")]
AppArgument = Annotated[str, app_argument("Uid of a small app.")]
ActionArgument = Annotated[
    str,
    argument(
        "ACTION", "Uid of an action, or its name.", autocompletion=complete_action
    ),
]
OperationArgument = Annotated[
    str,
    argument(
        "ID",
        "Id of an operation, or its first digits.",
        autocompletion=complete_operation,
    ),
]
OptionalOperation = Annotated[
    str | None,
    argument(
        "ID",
        "Id of one operation (its first digits), instead of filters.",
        autocompletion=complete_operation,
    ),
]
ActionOption = Annotated[
    str | None,
    option(
        "--action ACTION",
        "Uid of an action, or its name.",
        autocompletion=complete_action,
    ),
]
OccurrencesFromOption = Annotated[
    str | None, option("--from TIME", "Only occurrences at or after this.")
]
OccurrencesUntilOption = Annotated[
    str | None, option("--until TIME", "Only occurrences before this.")
]
StatesOption = Annotated[
    list[OperationState] | None,
    option("--state", "Only operations in this state; may be repeated."),
]
ReasonOption = Annotated[
    Reason | None, option("--reason", "Only operations with this reason.")
]
QueueOption = Annotated[
    Queue | None, option("--queue", "Only operations of this queue.")
]
NoteOption = Annotated[
    str | None, option("--note TEXT", "Why; shown wherever the pause is.")
]
UntilOption = Annotated[
    str | None, option("--until TIME", "When the pause ends by itself.")
]
AllOption = Annotated[bool, option("--all", "All of them, instead of filters.")]


def takes(
    name: str, make: Callable[..., Any], options: Mapping[str, Any] | None = None
) -> Callable[[Callable[..., _Result]], Callable[..., _Result]]:
    """
    Give a command, in the place of its parameter *name*, the options it is made of.

    Args:
        name: The parameter of the command.
        make: Returns what the command gets. Its parameters are the options.
        options: The options instead, by name, for a *make* that takes any; what is left
            out is None.
    """

    def give(command: Callable[..., _Result]) -> Callable[..., _Result]:
        own = list(_read_parameters(make))
        if options is not None:
            only = Parameter.KEYWORD_ONLY
            own = [
                Parameter(option, only, default=None, annotation=kind)
                for option, kind in options.items()
            ]
        found: list[Parameter] = []
        for each in _read_parameters(command):
            found += own if each.name == name else [each]

        @wraps(command)
        def call(**given: Any) -> _Result:
            made = make(**{each.name: given.pop(each.name) for each in own})
            return command(**{name: made}, **given)

        return _sign(call, found)

    return give


def takes_json(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command ``--json``, which ``out()`` obeys while the command runs."""
    kind = Annotated[bool, option("--json", "Print JSON instead of a table.")]
    asked = Parameter("json", Parameter.KEYWORD_ONLY, default=False, annotation=kind)

    @wraps(command)
    def call(*, json: bool = False, **given: Any) -> None:
        out().wants_json = json
        try:
            command(**given)
        finally:
            out().wants_json = False

    return _sign(call, [*_read_parameters(command), asked])


def _sign(
    call: Callable[..., _Result], found: Sequence[Parameter]
) -> Callable[..., _Result]:
    """Let *call* be one of the parameters *found*, as Typer reads them."""
    call.__signature__ = Signature(found)  # type: ignore[attr-defined]  # typer asks for it
    call.__annotations__ = {each.name: each.annotation for each in found}
    return call


def _read_parameters(function: Callable[..., Any]) -> Iterator[Parameter]:
    """Yield the parameters of *function*, which is called by their names."""
    hints = get_type_hints(function, include_extras=True)
    for each in signature(function).parameters.values():
        yield each.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints.get(each.name))


def read_instant(option: str, text: str) -> datetime:
    """
    Return the instant that *text* names by the clock of this host, aware UTC.

    Raises:
        UsageError: *text* is not an instant; the message says what *option* takes.
    """
    return _read_instant(option, text, read_host_clock())


def _read_instant(option: str, text: str, now: datetime) -> datetime:
    with naming(option):
        return parse_typed_instant(text, now=now)


@contextmanager
def naming(option: str) -> Iterator[None]:
    """
    Name *option* in what is refused of its value.

    Raises:
        UsageError: For an error of rules or models in the block.
    """
    try:
        yield
    except (RuleError, ValidationError) as error:
        raise UsageError(f"{option}: {say(error)}") from None


def read_options(model: type[_Model], **given: object) -> _Model:
    """
    Return what options of the names of the fields of *model* say; None: not given.

    Raises:
        UsageError: With a line for each option that is refused.
    """
    said = {name: value for name, value in given.items() if value is not None}
    try:
        return model(**said)
    except ValidationError as error:
        lines = []
        for found in error.errors(include_url=False):
            complaint = make_complaint(found, model)
            told = f"{complaint.message} {complaint.hint}".rstrip()
            # What is said of all of them together has no place.
            named = [f"--{each}: ".replace("_", "-") for each in found["loc"][:1]]
            lines.append("".join([*named, told]))
        raise UsageError("\n".join(lines)) from None


def read_note(text: str | None) -> str | None:
    """Return the note that ``--note`` gives; raises as ``read_options``."""
    return read_options(NoteModel, note=text or None).note


def read_optional_instant(option: str, text: str | None) -> datetime | None:
    """Return the instant that *text* names, or None if there is no text."""
    return None if text is None else read_instant(option, text)


def read_period(
    since: str | None, until: str | None
) -> tuple[datetime | None, datetime | None]:
    """
    Return the instants that ``--from`` (inclusive) and ``--until`` (exclusive) name.

    Raises:
        UsageError: One of them is not an instant, or --from is not before --until.
    """
    now = read_host_clock()  # once: "now" is the same instant in both
    begin = None if since is None else _read_instant("--from", since, now)
    end = None if until is None else _read_instant("--until", until, now)
    if begin is not None and end is not None and begin >= end:
        raise UsageError(
            f"--from {since} ({format_instant(begin)}) is not before --until {until}"
            f" ({format_instant(end)}). Give a later --until, or swap the two."
        )
    return begin, end


def _read_pause(*, note: NoteOption = None, until: UntilOption = None) -> PauseModel:
    end = read_optional_instant("--until", until)
    return read_options(PauseModel, note=note or None, until=end)


#: Gives a command, which takes ``asked``, the options that a pause is made of.
takes_pause = takes("asked", _read_pause)


def read_file(name: str) -> bytes:
    """
    Return the contents of the file *name*; "-" is standard input.

    Raises:
        UsageError: The file cannot be read.
    """
    try:
        if name == "-":
            return sys.stdin.buffer.read()
        return Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror or error}") from None


@contextmanager
def reading_document(name: str) -> Iterator[bytes]:
    """
    Yield the contents of the file *name*, and place what is wrong with them.

    Raises:
        InvalidDocumentError: As the block raises it; pointers begin with the file, line
            and column.
        UsageError: As ``read_file``.
    """
    text = read_file(name)
    try:
        yield text
    except InvalidDocumentError as error:
        source = "<stdin>" if name == "-" else name
        raise InvalidDocumentError(tuple(place_all(error, source, text))) from None


def shorten(identifier: UUID) -> str:
    """Return the first digits of *identifier*, which every command takes."""
    return str(identifier)[:SHOWN_DIGITS]


def read_operation_id(text: str) -> UUID:
    """
    Return the id of the operation that *text* names.

    Raises:
        NotFoundError: No operation has it.
        ConflictError: Several ids begin so.
    """
    try:
        return UUID(text)
    except ValueError:
        return ask_database(find_operation_id, text)


YesOption = Annotated[bool, option("--yes", "Go ahead without asking.")]
DryRunOption = Annotated[bool, option("--dry-run", "Only count; change nothing.")]


@dataclass(frozen=True, slots=True)
class ChangeTerms:
    """Whether only to count, and whether to ask first."""

    dry_run: DryRunOption = False
    yes: YesOption = False


#: Gives a command, which takes ``terms``, the options that these are made of.
takes_terms = takes("terms", ChangeTerms)


def confirm(what: str, *, yes: bool, look: str = "") -> bool:
    """
    Return whether to do *what*, which is asked unless *yes*.

    Args:
        what: Such as "Cancel 12 operations", without a question mark.
        yes: Do not ask: the answer is yes.
        look: Added to the hint of the error, such as ", or --dry-run to look first".

    Raises:
        UsageError: There is no terminal to ask on, and *yes* is False.
    """
    if yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"{what}? There is no terminal to ask on: add --yes{look}.")
    try:
        return typer.confirm(f"{what}?", err=True)
    except typer.Abort as end:  # also of an input that ended, which interrupts nothing
        if isinstance(end.__context__, KeyboardInterrupt):
            raise end.__context__ from None
        raise


def confirm_change_of_many(what: str, *, yes: bool) -> None:
    """
    Ask whether to do *what*; the command must have a ``--dry-run``.

    Raises:
        typer.Exit: With code 1: the answer was no.
        UsageError: There is no terminal to ask on, and *yes* is False.
    """
    if not confirm(what, yes=yes, look=", or --dry-run to look first"):
        err().say("Nothing was changed.")
        raise typer.Exit(1)

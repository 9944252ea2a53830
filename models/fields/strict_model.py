"""
What all documents that people write have in common: strict keys, our wording. Pure.

Every model of a document derives from ``DocumentModel``. What pydantic finds wrong
with one is put in our own words here, so that its author reads what was found, why it
is refused and what to write instead, and never a validator's jargon.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ModelWrapValidatorHandler,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    model_validator,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError
from pydantic_core.core_schema import CoreSchema, no_info_wrap_validator_function

from models.errors import RuleError

_Setting = TypeVar("_Setting")

#: Characters of a refused value that a message shows.
LONGEST_SHOWN = 60

#: Complaints about one document; more would help nobody and take time.
MOST_PROBLEMS = 100

#: Keys of one object of a document; none has a quarter of them.
MOST_KEYS = 200

#: Entries that are read before their problems are looked at.
_PART = 100

#: The pydantic error type of a complaint that is already in our words.
_SAID = "problem"


class Complaint(NamedTuple):
    """
    What is wrong with one value, and what to write instead.

    Args:
        about_key: Whether it is the key that is wrong, not its value.
        instead: The key or text that was probably meant. None: nobody can tell.
    """

    message: str
    hint: str
    about_key: bool = False
    instead: str | None = None


class DocumentModel(BaseModel):
    """
    A part of a document: refuses unknown keys, and never changes.

    Fields for which an example helps have one (``Field(examples=[...])``), which hints
    show.
    """

    model_config = ConfigDict(
        extra="forbid",
        defer_build=True,
        frozen=True,
        populate_by_name=True,
        # The content of a document does not belong in a log.
        hide_input_in_errors=True,
    )

    @classmethod
    def say_place(cls, path: Sequence[str | int]) -> str:
        """
        Return where the key at the end of *path* belongs, as a hint.

        Args:
            path: Of a key that is unknown there, in a document of this model.

        Returns:
            "" if it is known nowhere else.
        """
        del path
        return ""

    @model_validator(mode="wrap")
    @classmethod
    def _say_in_our_words(
        cls, value: object, handler: ModelWrapValidatorHandler[Self]
    ) -> Self:
        """Let pydantic validate, and put its complaints in our words."""
        if isinstance(value, dict) and len(value) > MOST_KEYS:
            said = _say_too_long(value, MOST_KEYS)
            raise refuse_all(cls.__name__, [refuse(said, value=value)])
        try:
            return handler(value)
        except ValidationError as error:
            raise refuse_all(error.title, complain(error, cls)) from None


@dataclass(frozen=True, slots=True)
class Most:
    """
    The most entries of a tuple or dict, as metadata of its type.

    They are counted before any of them is read, and read in parts: what comes after a
    part with problems is not looked at, so that a refusal costs little however much
    there is to refuse.
    """

    count: int

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Read the type in parts; its JSON schema has the bound as any other."""
        schema: Any = {**handler(source), "max_length": self.count}
        return no_info_wrap_validator_function(self._read, schema)

    def _read(self, value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        if not isinstance(value, list | tuple | dict) or len(value) <= _PART:
            return handler(value)
        if len(value) > self.count:
            said = _say_too_long(value, self.count)
            raise refuse_all("list", [refuse(said, value=value)])
        if isinstance(value, dict):
            entries = iter(value.items())
            parts = iter(lambda: dict(islice(entries, _PART)), {})
            return {key: each for part in parts for key, each in handler(part).items()}
        starts = range(0, len(value), _PART)
        return tuple(
            each
            for start in starts
            for each in _read_part(value[start : start + _PART], start, handler)
        )


def _read_part(part: Any, start: int, handler: ValidatorFunctionWrapHandler) -> Any:
    """Read the entries of a list from *start* on."""
    try:
        return handler(part)
    except ValidationError as error:
        details = complain(error, DocumentModel)
        for each in details:
            index, *inner = each["loc"]
            assert isinstance(index, int)  # of an entry of a list
            each["loc"] = (start + index, *inner)
        raise refuse_all(error.title, details) from None


def complain(error: ValidationError, model: type[BaseModel]) -> list[InitErrorDetails]:
    """Return the complaints of *error* about a *model*."""
    return [
        # A value that is not an object is left to the model that has it as a field,
        # and that has an example.
        InitErrorDetails(
            type=found["type"], loc=(), input=found["input"], ctx=found.get("ctx", {})
        )
        if found["type"] == "model_type" and not found["loc"]
        else refuse(
            make_complaint(found, model), loc=found["loc"], value=found["input"]
        )
        for found in islice(error.errors(include_url=False), MOST_PROBLEMS)
    ]


def refuse(
    complaint: Complaint, *, loc: tuple[int | str, ...] = (), value: object = None
) -> InitErrorDetails:
    """Return *complaint* about *value* at *loc* in the form that pydantic raises."""
    # Problems read message and hint from the context, because pydantic expands braces
    # in its own message, and values that people write may contain some.
    context = complaint._asdict()
    said = PydanticCustomError(_SAID, "{message} {hint}", context)
    return InitErrorDetails(type=said, loc=loc, input=value)


def refuse_all(title: str, details: list[InitErrorDetails]) -> ValidationError:
    """Return one error with all *details*, for a validator to raise."""
    return ValidationError.from_exception_data(title, details)


def show(value: object) -> str:
    """Return *value* as messages show it: as JSON, cut to a readable length."""
    if isinstance(value, str):
        text = repr(value)
    else:
        try:
            text = json.dumps(value, ensure_ascii=False)
        except (TypeError, ValueError):
            text = f"a value of type {type(value).__name__}"

    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def say(error: ValueError) -> str:
    """Return the complaints of *error* on one line, in our words if it has any."""
    if not isinstance(error, ValidationError):
        return str(error)
    complaints = (
        make_complaint(found, DocumentModel)
        for found in islice(error.errors(include_url=False), MOST_PROBLEMS)
    )
    return " ".join(f"{each.message} {each.hint}".rstrip() for each in complaints)


def read_setting(adapter: TypeAdapter[_Setting], text: str, example: str) -> _Setting:
    """
    Return the JSON object of a setting.

    Args:
        adapter: Reads it.
        example: What to write instead.

    Raises:
        RuleError: It is no such object; the message has no value of it.
    """
    try:
        return adapter.validate_python(json.loads(text))
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(each) for each in found["loc"] if each != "[key]")
        said = getattr(found.get("ctx", {}).get("error"), "message", found["msg"])
        msg = f"has something else at {place!r} than it may: {said.rstrip('.')}."
        raise RuleError(msg, example) from None
    except ValueError:
        raise RuleError("is not JSON.", example) from None


def suggest(word: str, known: Iterable[str], *, meant: str | None = None) -> str:
    """
    Return a hint that offers the name nearest to *word*, and lists all names.

    Args:
        word: What was written.
        known: What may be written, in the order it should be listed.
        meant: The name that *word* certainly stands for, if that is known.
    """
    names = list(known)
    near = meant or find_near(word, names)
    listed = ", ".join(names)
    if near is None:
        return f"Write one of: {listed}."

    return f"Did you mean '{near}'? Write one of: {listed}."


def find_near(word: str, known: Iterable[str]) -> str | None:
    """Return the one of *known* that *word* was probably meant to be, or None."""
    folded = {name.casefold(): name for name in known}
    written = word.casefold().strip().replace("-", "_").replace(" ", "_")
    # A longer text is not a typo, and comparing it costs too much.
    if len(written) > LONGEST_SHOWN:
        return None

    close = difflib.get_close_matches(written, folded, n=1, cutoff=0.6)
    if close:
        return folded[close[0]]

    # "include_inactive" is part of the name that was meant
    parts = [name for name in folded if len(written) > 2 and written in name]
    return folded[parts[0]] if parts else None


def make_complaint(found: ErrorDetails, model: type[BaseModel]) -> Complaint:
    """Return what pydantic *found* wrong with a value of *model*, in our words."""
    kind, loc, context = found["type"], found["loc"], found.get("ctx", {})
    if kind == _SAID:
        return Complaint(**context)

    cause = context.get("error")
    offer = _offer(model, loc)
    if isinstance(cause, RuleError):
        return Complaint(cause.message, cause.hint or offer or "Write something else.")

    if kind == "extra_forbidden":
        return say_unknown_key(str(loc[-1]), model)

    value = found["input"]
    if kind == "missing":
        return Complaint(f"{show(str(loc[-1]))} is missing.", offer or "Add it.")

    complaint = _word(kind, value, context)
    # For a wrong type, an example says more than the name of the right one.
    hint = (kind.endswith("_type") and offer) or complaint.hint
    return complaint._replace(hint=hint)


def say_unknown_key(key: str, model: type[BaseModel]) -> Complaint:
    """Return what is said of a *key* that *model* does not have."""
    keys = get_keys(model)
    said = f"{show(key)} is not a known key."
    near = find_near(key, keys)
    return Complaint(said, suggest(key, keys), about_key=True, instead=near)


#: Metadata of a field that only the scheduler uses, and that hints do not list.
OURS = "ours"


def optional(example: object, **more: Any) -> Any:
    """Return a field that may be left out, with an *example* of what it takes."""
    return Field(default=None, examples=[example], **more)


def described(text: str, **more: Any) -> Any:
    """Return a member of a filter, which may be left out; *text* says what it is."""
    return Field(default=None, description=text, **more)


def get_keys(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the keys people may write in *model*, in the order of its fields."""
    return tuple(
        field.alias or name
        for name, field in model.model_fields.items()
        if OURS not in field.metadata
    )


def _offer(model: type[BaseModel], loc: tuple[int | str, ...]) -> str:
    """Return a hint that shows an example of the field at *loc*, if it has one."""
    for name, field in model.model_fields.items():
        if loc in {(name,), (field.alias,)} and field.examples:
            example = json.dumps(field.examples[0], ensure_ascii=False)
            return f'Write, for instance, "{loc[0]}": {example}.'

    return ""


def _word(kind: str, value: object, context: Mapping[str, Any]) -> Complaint:
    if "expected" in context:
        return _say_choice(value, context["expected"])
    if "max_length" in context:
        return _say_too_long(value, context["max_length"])
    message, hint = _WORDS.get(kind, _REFUSED)
    return Complaint(message.format(show(value), **context), hint.format(**context))


def _say_choice(value: object, listed: str) -> Complaint:
    # pydantic lists the choices as "'a', <Kind.B: 'b'> or 3".
    names = re.findall(r"'([^']*)'", listed) or re.split(", | or ", listed)
    written = str(value)
    return Complaint(
        f"{show(value)} is not a known value.",
        suggest(written, names),
        instead=find_near(written, names),
    )


def _say_too_long(value: Any, most: int) -> Complaint:
    unit = "characters" if isinstance(value, str) else "entries"
    said = f"It has {len(value)} {unit}; at most {most} are accepted."
    return Complaint(said, f"Write at most {most}.")


_REFUSED = "{} is not accepted here.", "Write something else."
_NO_WHOLE_NUMBER = "{} is not a whole number.", "Write one, such as 10."
_NO_BOOLEAN = "{} is neither true nor false.", "Write true or false."
_NO_OBJECT = "{} is not an object.", "Write an object, {{...}}."

#: How we word other errors, by the name that pydantic gives them: of a value and with
#: what pydantic tells beside it, and what to write instead.
_WORDS: Mapping[str, tuple[str, str]] = {
    "string_type": ("{} is not text.", "Write text in double quotes."),
    "string_too_short": ("{} is empty.", "Write at least one character."),
    "string_pattern_mismatch": (
        "{} does not have the form {pattern}.",
        "Write text of that form.",
    ),
    "int_parsing": _NO_WHOLE_NUMBER,
    "int_type": _NO_WHOLE_NUMBER,
    "int_from_float": _NO_WHOLE_NUMBER,
    "less_than_equal": ("{} is more than {le}.", "Write at most {le}."),
    "greater_than_equal": ("{} is less than {ge}.", "Write {ge} or more."),
    "bool_parsing": _NO_BOOLEAN,
    "bool_type": _NO_BOOLEAN,
    "tuple_type": ("{} is not a list.", "Write a list, [...]."),
    "dict_type": _NO_OBJECT,
    "json_invalid": ("{} is not JSON.", "Write an object, {{...}}."),
    "model_type": _NO_OBJECT,
}

"""Small apps and their users, as people write them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jinja2 import Environment, TemplateSyntaxError, nodes

from models.door.documents import LARGEST_BULK, read_value
from models.door.json_text import check_json, decode_json, make_pointer
from models.errors import InvalidDocumentError, Problem
from models.fields.strict_model import show, suggest
from models.small_app import DirectoryModel, SmallAppModel, TemplateModel, UserModel

_HINT = "Write {{ user.name }}, {% if %} ... {% endif %} and the like as Jinja2 has it."

#: Words and signs of all templates of a document that are read, which takes seconds;
#: of what is beyond, the workers tell.
_MOST_TOKENS = 100_000


def find_template_problems(templates: Mapping[str, TemplateModel]) -> Iterator[Problem]:
    """Yield what is wrong with the templates of a small app, by their names."""
    reader = Environment(autoescape=True)
    left = iter(range(_MOST_TOKENS))
    for name, template in templates.items():
        for part in ("subject", "text", "html"):
            source = getattr(template, part) or ""
            try:
                for _token in reader.lex(source):  # may end in an error
                    if next(left, None) is None:
                        return
                wrong = _find_unknown(reader, reader.parse(source))
            except TemplateSyntaxError as error:
                said = (error.message or "it is no Jinja2").rstrip(".")
                wrong = f"Line {error.lineno}: {said}.", _HINT
            except RecursionError:
                wrong = "It is nested too deeply.", "Write it with fewer brackets."
            except ValueError as error:  # a number with too many digits
                wrong = f"{error}.", _HINT
            if wrong is not None:
                yield Problem(make_pointer(["templates", name, part]), *wrong)


def _find_unknown(reader: Environment, tree: nodes.Template) -> tuple[str, str] | None:
    """Return which filter or test of a template there is not, and what was meant."""
    for kind, known in ((nodes.Filter, reader.filters), (nodes.Test, reader.tests)):
        for node in tree.find_all(kind):
            if node.name not in known:
                noun = kind.__name__.lower()
                told = f"Line {node.lineno}: there is no {noun} {node.name!r}."
                return told, suggest(node.name, known)
    return None


def read_small_app(text: str | bytes, *, uid: str | None = None) -> SmallAppModel:
    """
    Return the small app that *text*, at most 32 MiB of JSON, describes.

    Args:
        text: The whole document.
        uid: The one that it must have, and may leave out. None: any.

    Raises:
        InvalidDocumentError: With every problem, in document order.
    """
    value = decode_json(text, largest=LARGEST_BULK)
    if uid is not None:
        value = _name(value, "uid", uid)
    return read_small_app_object(value)


def _name(value: object, key: str, name: str) -> object:
    """Return *value* with the *name* that it has in an address; refuse another one."""
    if not isinstance(value, dict):
        return value
    given = value.get(key)
    if given is not None and given != name:
        msg = f"{show(given)} is not the {key} in the address, {show(name)}."
        problem = Problem(f"/{key}", msg, f"Leave it out, or write {show(name)}.")
        raise InvalidDocumentError((problem,))
    return {**value, key: name}


def read_small_app_object(value: object) -> SmallAppModel:
    """Return the small app in the decoded JSON *value*; see ``read_small_app``."""
    model = read_value(SmallAppModel, value, "small app")
    problems = tuple(find_template_problems(model.templates or {}))
    if problems:
        raise InvalidDocumentError(problems)
    return model


def read_user(text: str | bytes, *, user_id: str) -> UserModel:
    """
    Return the user of a small app that *text* describes.

    Args:
        text: JSON of at most 1 MiB.
        user_id: The one that it must have, and may leave out.

    Raises:
        InvalidDocumentError: With every problem, in document order.
    """
    return read_user_object(decode_json(text), user_id=user_id)


def read_user_object(value: object, *, user_id: str) -> UserModel:
    """Return the user in the decoded JSON *value*; see ``read_user``."""
    return read_value(UserModel, _name(value, "id", user_id), "user")


def read_patch(text: str | bytes) -> object:
    """
    Return the JSON Merge Patch in *text*, of at most 1 MiB.

    What it makes of a document is still to be read by the reader of that.

    Raises:
        InvalidDocumentError: It is not JSON.
    """
    value = decode_json(text)
    check_json(value)
    return value


def read_directory(text: str | bytes, *, app: str) -> SmallAppModel:
    """
    Return a document of *app* that has all its users, which *text* lists.

    Args:
        text: ``{"users": [...]}``, at most 32 MiB.

    Raises:
        InvalidDocumentError: With every problem, in document order.
    """
    value = decode_json(text, largest=LARGEST_BULK)
    users = read_value(DirectoryModel, value, "directory").users
    # The uid comes from an address, so it may be none.
    return read_small_app_object({"uid": app}).model_copy(update={"users": users})

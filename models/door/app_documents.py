"""Small apps and their users, as people write them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.lexer import TokenStream

from models.door.documents import LARGEST_BULK, read_value
from models.door.json_text import check_json, decode_json, find_line, make_pointer
from models.errors import InvalidDocumentError, Problem
from models.fields.strict_model import show, suggest
from models.small_app import DirectoryModel, SmallAppModel, TemplateModel, UserModel

_LINE_END = re.compile(r"\r\n|\r")

_HINT = "Write {{ user.name }}, {% if %} ... {% endif %} and the like as Jinja2 has it."


#: Words and signs of all templates of a document that are read, which takes seconds;
#: of what is beyond, the workers tell.
_MOST_TOKENS = 100_000


class _TooMuchError(Exception):
    """There is more than is read here."""


class _Reader(Environment):
    """Jinja2, which knows at which character of a text it is, and when it is enough."""

    at = 0
    left = _MOST_TOKENS

    def _tokenize(
        self,
        source: str,
        name: str | None,
        filename: str | None = None,
        state: str | None = None,
    ) -> TokenStream:
        found = self.lexer.tokeniter(source, name, filename, state)
        tokens = self.lexer.wrap(self._follow(source, found), name, filename)
        return TokenStream(tokens, name, filename)

    def _follow(
        self, source: str, found: Iterator[tuple[int, str, str]]
    ) -> Iterator[tuple[int, str, str]]:
        end = self.at = 0
        for line, kind, text in found:
            self.at = max(source.find(text, end), end)
            end = self.at + len(text)
            self.left -= 1
            if self.left < 0:
                raise _TooMuchError
            yield line, kind, text
            self.at = end


def find_template_problems(templates: Mapping[str, TemplateModel]) -> Iterator[Problem]:
    """Yield what is wrong with the templates of a small app, by their names."""
    reader = _Reader()
    for name, template in templates.items():
        for part in ("subject", "text", "html"):
            try:
                wrong = _find_mistake(reader, getattr(template, part) or "")
            except _TooMuchError:
                return
            if wrong is not None:
                yield Problem(make_pointer(["templates", name, part]), *wrong)


def _find_mistake(reader: _Reader, source: str) -> tuple[str, str] | None:
    """Return what is wrong with a text, with line and column, and what to write."""
    text = _LINE_END.sub("\n", source)
    try:
        tree = reader.parse(text)
    except TemplateSyntaxError as error:
        line, column = find_line(text, reader.at)
        said = (error.message or "it is no Jinja2").rstrip(".")
        return f"Line {line}, column {column}: {said}.", _HINT
    except RecursionError:
        return "It is nested too deeply.", "Write it with fewer brackets."
    except ValueError as error:  # a number with too many digits
        return f"{error}.", _HINT
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

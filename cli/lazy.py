"""
Commands that are imported when they are called.

``operations show`` should answer at once, so it must not wait for Celery, which
only a few commands need. A group knows where its commands are; the modules behind them
are loaded one at a time, and only read where a list shows their first sentences.
"""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from inspect import getdoc
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

#: -h beside --help, everywhere.
CONTEXT = {"help_option_names": ["-h", "--help"]}


@dataclass(frozen=True, slots=True)
class Group:
    """
    Commands under one word.

    Args:
        entries: By name: the ``module:function`` of a command, or a group of them.
    """

    summary: str
    entries: Mapping[str, str | Group]


class LazyGroup(TyperGroup):
    """A group whose commands are stand-ins until one of them is called."""

    def __init__(self, group: Group, *, name: str, **attributes: Any) -> None:
        """Make the stand-ins, import nothing; *attributes* are those of TyperGroup."""
        self._entries = group.entries
        super().__init__(
            name=name,
            help=group.summary,
            commands={
                key: LazyGroup(entry, name=key)
                if isinstance(entry, Group)
                else TyperCommand(name=key)
                for key, entry in group.entries.items()
            },
            context_settings=dict(CONTEXT),
            no_args_is_help=True,
            **attributes,
        )

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Load the command that is called, then let Typer resolve it."""
        entry = self._entries.get(args[0]) if args else None
        if isinstance(entry, str):
            self.commands[args[0]] = load(entry, name=args[0])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Invoke the command; refuse values of its options in our words."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = reword(error.message)
            raise

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - Typer's signature
        """Return the names in the order of the table, and know what each does."""
        for name, entry in self._entries.items():
            if isinstance(entry, str):
                self.commands[name].help = read_summary(entry)
        return list(self._entries)


def reword(message: str) -> str:
    """
    Return why a value was refused without what is pydantic's, and what may be meant.

    >>> reword("Value error, 'failedd' is not one of 'failed', 'missed'.")
    "'failedd' is not one of 'failed', 'missed'. Did you mean 'failed'?"
    """
    message = message.removeprefix("Value error, ")
    match = _NOT_ONE.fullmatch(message)
    if match is None:
        return message
    # It needs pydantic, for which commands without a mistake need not wait.
    find_near = import_module("models.fields.strict_model").find_near
    near = find_near(match["given"], _CHOICE.findall(match["choices"]))
    return message if near is None else f"{message} Did you mean {near!r}?"


_NOT_ONE = re.compile(
    r"(['\"])(?P<given>.*)\1 is not one of (?P<choices>.*)\.", re.DOTALL
)
_CHOICE = re.compile("'([^']+)'")


def read_summary(target: str) -> str:
    """
    Return what a function says first of itself, without importing its module.

    >>> read_summary("cli.lazy:read_summary")
    'Return what a function says first of itself, without importing its module.'
    """
    module, _, function = target.partition(":")
    spec = find_spec(module)
    assert spec is not None  # a test loads every command
    assert spec.origin is not None  # it is a file
    parsed = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    defined = (each for each in parsed.body if isinstance(each, ast.FunctionDef))
    found = next(each for each in defined if each.name == function)
    paragraph, _, _ = (ast.get_docstring(found) or "").partition("\n\n")
    return " ".join(paragraph.split())


def load(target: str, *, name: str) -> Any:
    """Import the function behind ``module:function``, and return it as a command."""
    module, _, function = target.partition(":")
    app = typer.Typer(add_completion=False)
    with importing():
        run = getattr(import_module(module), function)
        paragraphs = (getdoc(run) or "").split("\n\n")
        # Typer would keep the ends of lines, which are elsewhere in a window.
        told = "\n\n".join(" ".join(each.split()) for each in paragraphs)
        app.command(name, help=told, context_settings=dict(CONTEXT))(run)
        return typer.main.get_command(app)


@contextmanager
def importing() -> Iterator[None]:
    """
    Do not look for garbage while modules are imported.

    What modules define stays, so each of a dozen such searches would find nothing, in
    more objects than the one before: a tenth of the time of most commands.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()

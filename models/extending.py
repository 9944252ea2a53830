"""
What the author of a package derives from, and how documents name what it adds. Pure.

A kind is one class: the model of what people write, with one method that does it. See
docs/extending.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import (
    JsonValue,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import InitErrorDetails

from models.fields.strict_model import DocumentModel, complain, refuse_all


class InstalledStep(DocumentModel):
    """
    A step that a package adds, and what people write for it.

    ``is_heavy``: whether it changes what the app stages or publishes, so that one such
    operation of an app runs at a time, on the heavy queue.
    """

    is_heavy: ClassVar[bool] = False

    def run(self, context: Any) -> Mapping[str, JsonValue]:
        """
        Do the step; return what ``operations show`` prints.

        Args:
            context: operations/ports.py: StepContext.

        Raises:
            StepError: Permanent, or worth another attempt.
        """
        raise NotImplementedError


class InstalledSource(DocumentModel):
    """A source that a package adds, and what people write for it."""

    def read(self, request: Any) -> Any:
        """
        Write the data to ``request.file``; return how it is written.

        Args:
            request: operations/domains.py: SourceRequest.

        Returns:
            operations/domains.py: Content; None if it is as ``request.known`` says.

        Raises:
            StepError: Permanent, or worth another attempt.
        """
        raise NotImplementedError


class ExtensibleModel(DocumentModel):
    """A part of a document in which packages may add keys, each a model of its own."""

    _installed: dict[str, DocumentModel] = PrivateAttr(default_factory=dict)

    @classmethod
    def get_installed(cls) -> Mapping[str, type[DocumentModel]]:
        """Return the models that packages add, by key."""
        return {}

    @classmethod
    def more_keys(cls) -> tuple[str, ...]:
        """Return the keys beside those of the fields."""
        return tuple(cls.get_installed())

    @classmethod
    def read_installed(cls, value: object) -> object:
        """Return *value* as its model takes it; None if it is not asked for."""
        return value

    def check(self) -> None:
        """
        Check the whole, with the keys of packages.

        Raises:
            RuleError: It is refused.
        """

    @property
    def installed(self) -> Mapping[str, DocumentModel]:
        """What the keys of packages say, ordered by key."""
        return self._installed

    @model_validator(mode="wrap")
    @classmethod
    def _read_keys_of_packages(
        cls,
        value: object,
        handler: ModelWrapValidatorHandler[Self],
        info: ValidationInfo,
    ) -> Self:
        if not isinstance(value, dict) or cls.model_fields.keys() >= value.keys():
            made = handler(value)
            made.check()
            return made
        kinds = cls.get_installed()
        problems: list[InitErrorDetails] = []
        read: dict[str, DocumentModel] = {}
        for key in sorted(kinds.keys() & value.keys()):
            given = cls.read_installed(value[key])
            if given is None:
                continue
            try:
                read[key] = kinds[key].model_validate(given, context=info.context)
            except ValidationError as error:
                problems += complain(error, kinds[key], at=(key,))
        try:
            made = handler({k: v for k, v in value.items() if k not in kinds})
        except ValidationError as error:
            problems = complain(error, cls) + problems
        if problems:
            raise refuse_all(cls.__name__, problems)
        made._installed = read  # noqa: SLF001 - of this very class
        made.check()
        return made

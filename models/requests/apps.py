"""What people ask of a small app: to be applied, refreshed, published. Pure."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from models.errors import RuleError
from models.fields.field_types import MOST_NAMES, DomainName, Uid, UserName
from models.fields.strict_model import DocumentModel, Most, optional
from models.small_app import SmallAppModel, UserModel

#: The largest number of a version that the database takes.
LARGEST_VERSION = 2**31 - 1

_Domains = Annotated[tuple[DomainName, ...], Field(min_length=1), Most(MOST_NAMES)]
_Versions = Annotated[
    dict[DomainName, Annotated[int, Field(ge=1, le=LARGEST_VERSION)]],
    Field(min_length=1),
    Most(MOST_NAMES),
]


class SmallAppBodyModel(SmallAppModel):
    """The document of a small app whose uid is in an address."""

    uid: Uid | None = None  # type: ignore[assignment]  # as the address says


class UserBodyModel(UserModel):
    """A user of a small app whose id is in an address."""

    id: UserName | None = None  # type: ignore[assignment]  # as the address says


class RefreshRequestModel(DocumentModel):
    """
    Refresh data now.

    Args:
        domains: Names. None: all.
        force: Whether to refresh data whose source has not changed, too.
    """

    domains: _Domains | None = optional(["sales"])
    force: bool = False


class MoveRequestModel(DocumentModel):
    """
    Publish or roll back now.

    Args:
        data: Whether data are meant.
        design: Whether the document of that name is meant.
        permissions: Whether the document of that name is meant.
        domains: Names of those whose data are meant. None: all.
        expected: The versions that the caller has seen and means to make live, by the
            name of the domain; with others, nothing moves. None: any.
    """

    model_config = ConfigDict(
        # What is checked below, for programs that read the schema.
        json_schema_extra={
            "anyOf": [
                {"properties": {kind: {"const": True}}, "required": [kind]}
                for kind in ("data", "design", "permissions")
            ],
            "dependentSchemas": {
                name: {
                    "anyOf": [
                        {"properties": {name: {"type": "null"}}},
                        {"properties": {"data": {"const": True}}, "required": ["data"]},
                    ]
                }
                for name in ("domains", "expected")
            },
        }
    )

    data: bool = False
    design: bool = False
    permissions: bool = False
    domains: _Domains | None = optional(["sales"])
    expected: _Versions | None = optional({"sales": 3})

    @model_validator(mode="after")
    def _refuse_nothing(self) -> Self:
        if not self.kinds:
            msg = "Neither data nor a document is asked for."
            raise RuleError(msg, 'Write, for instance, {"data": true}.')
        if self.domains is not None and not self.data:
            msg = "'domains' says which data are meant, but 'data' is not true."
            raise RuleError(msg, 'Write "data": true, or leave the domains out.')
        if self.expected is not None and not self.data:
            msg = "'expected' has versions of data, but 'data' is not true."
            raise RuleError(msg, 'Write "data": true, or leave the versions out.')
        return self

    @property
    def kinds(self) -> tuple[str, ...]:
        """What is asked for, in the order in which it moves."""
        return tuple(
            name for name in ("data", "design", "permissions") if getattr(self, name)
        )

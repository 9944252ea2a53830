"""Who gets the mails of an action, as its admin writes it. Pure."""

from __future__ import annotations

from pydantic import Field

from models.fields.field_types import Names, UserNames
from models.fields.strict_model import DocumentModel

#: The group that every member of the small app is in.
EVERYONE = "all"


class RecipientFilterModel(DocumentModel):
    """
    A union of users and members of groups, then a filter.

    *inactive*: disabled or expired account. *inactivated*: never activated by its
    user. Neither means "not seen lately". Both are dropped unless asked for.
    """

    users: UserNames = Field(default=(), examples=[["toco@tou.can"]])
    groups: Names = Field(default=(), examples=[["all"]])
    include_inactivated_users: bool = False
    include_inactive_users: bool = False
    only_inactivated_users: bool = False
    only_inactive_users: bool = False

"""Who gets the mails of an action, as an admin writes it. Pure."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from models.fields.field_types import Names, UserNames
from models.fields.strict_model import DocumentModel

#: The group that every user of the small app is in.
EVERYONE = "all"


class RecipientFilterModel(DocumentModel):
    """
    The union of the users and the members of the groups, then a filter.

    *inactive*: a disabled or expired account. *inactivated*: an account that its user
    never activated. Neither means "not seen lately". Both are left out by default.
    """

    users: UserNames = Field(default=(), examples=[["toco@tou.can"]])
    groups: Names = Field(default=(), examples=[["all"]])
    include_inactivated_users: bool = False
    include_inactive_users: bool = False
    only_inactivated_users: bool = False
    only_inactive_users: bool = False


class Standing(StrEnum):
    """Why a user gets the mails of an action, or does not."""

    NAMED = "named"  # in, by id or address
    IN_GROUP = "in a group"  # in, by a group that is named
    TRIGGERS = "triggers"  # in, if an event of theirs triggers the action
    NOT_NAMED = "not named"  # out
    INACTIVE = "inactive"  # out: disabled or expired
    INACTIVATED = "inactivated"  # out: never activated
    NOT_ONLY = "not the only ones"  # out: an only flag asks for others
    NOBODY = "nobody"  # out: the action has no recipients

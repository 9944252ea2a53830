"""Who gets the mails of an action, as an admin writes it. Pure."""

from __future__ import annotations

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

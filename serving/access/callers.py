"""Those who ask, once it is known who they are. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from models.database.engine import Author
from models.errors import ForbiddenError
from models.role import Role


@dataclass(frozen=True, slots=True)
class Caller:
    """
    Somebody who asks, and what they may do.

    Args:
        key_id: The API key that they ask with, or signed in with, or were invited
            with. None: they signed in by a link of the command line, with the
            company's provider, or through a proxy.
        name: What the record of changes calls them.
        role: What they may do.
        app: Uid of the one small app that they may see. None: the installation.
        session: Of a person at the pages. None: they ask with a key, or by a proxy.
        use_is_due: Whether the last use of the key is to be noted again.
    """

    key_id: str | None
    name: str
    role: Role
    app: str | None
    session: str | None = None
    use_is_due: bool = field(default=False, compare=False)

    @property
    def owner(self) -> str:
        """Whose limits and whose repeated requests these are."""
        if self.key_id is not None:
            return f"key {self.key_id}"
        if self.session is not None:
            return f"session {self.session}"
        return f"person {self.name}"

    def as_author(self, request_id: str | None = None) -> Author:
        """Return who makes the changes of a request, for the record of changes."""
        return Author(self.name, self.key_id, request_id)

    def demand(self, role: Role) -> None:
        """
        Refuse if *role* is needed and they have less.

        Raises:
            ForbiddenError: They have less.
        """
        if self.role < role:
            raise ForbiddenError(
                f"this needs the role {role}, and {self.name} has the role {self.role}"
            )

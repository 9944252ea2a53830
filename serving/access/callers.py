"""Those who ask, and what they are refused for want of a role or an app. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

from models.database.engine import Author
from models.errors import ForbiddenError, NotFoundError
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
        """
        Whose limits and whose repeated requests these are.

        Sessions begun with one key are one's own, but for those of whom its owner has
        invited: they have other names, and may see less. So are those of a person whom
        a link of the command line, the company's provider or a proxy has named; to one
        small app, for an operator may have given the link to somebody there.
        """
        if self.key_id is None:
            where = "" if self.app is None else f" of {self.app}"
            return f"person {self.name}{where}"
        program = f"key {self.key_id}"
        return program if self.session is None else f"{program} of {self.name}"

    def as_author(self, request_id: str | None) -> Author:
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

    def demand_installation(self, what: str) -> None:
        """
        Refuse whoever may see one small app alone: *what* is there for all of them.

        Raises:
            ForbiddenError: *what* exists, and that is no secret.
        """
        if self.app is not None:
            raise ForbiddenError(f"a key of the installation is needed for {what}")

    def demand_key(self, app: str | None, role: Role) -> None:
        """
        Refuse whoever may not manage a key of *app*, or of all of them, with *role*.

        Raises:
            NotFoundError: They see another small app alone.
            ForbiddenError: It may do more than theirs.
        """
        if self.app is not None and app is None:
            raise ForbiddenError(
                f"a key of small app {self.app!r} makes keys of that app only."
                f" Give the app: {self.app!r}."
            )
        if self.app not in {None, app}:
            refuse_app(app)
        if role > self.role:
            msg = f"the role {role} is above {self.role}, the role of {self.name}"
            raise ForbiddenError(msg)


def refuse_app(app: str | None) -> NoReturn:
    """Say that there is no small app *app*, in the words for one that never was."""
    raise NotFoundError(f"there is no small app {app!r}")

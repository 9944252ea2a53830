"""People at the pages of a prepared installation, with a role, of one app or of all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape
from typing import Any

import httpx2
import sqlalchemy as sa
from starlette.testclient import TestClient

from models.role import Role
from serving.access.manage_keys import create_key
from tests.database import write_by
from tests.integration.api.prepared import Prepared

#: What a browser sends along with a form of a page of ours.
OWN = {"Origin": "http://testserver"}


@dataclass(frozen=True)
class Person:
    """
    Somebody who is signed in.

    Args:
        shop: The small app that is looked at.
    """

    client: TestClient
    shop: Prepared

    def look(self, path: str, status: int = 200) -> str:
        """Return the text of a page, which must answer with *status*."""
        answer = self.client.get(path)
        assert status == answer.status_code, (path, answer.text[-2000:])
        return unescape(answer.text)

    def send(self, path: str, **fields: Any) -> httpx2.Response:
        """Send a form of the page at *path*, as it is, with *fields* filled in."""
        page = self.client.get(path).text
        hidden = re.findall(
            r'<input\s+type="hidden"\s+name="([^"]*)"\s+value="([^"]*)"', page
        )
        form: dict[str, Any] = {}
        for name, value in hidden:
            form.setdefault(name, []).append(unescape(value))
        (action,) = re.findall(r'id="dialog" method="post" action="([^"]*)"', page)
        action = unescape(action)
        return self.client.post(action, data={**form, **fields}, headers=OWN)

    def do(self, path: str, **fields: Any) -> str:
        """Send a form that is accepted; return the text of the page that follows."""
        answer = self.send(path, **fields)
        assert 303 == answer.status_code, answer.text[-2000:]
        return self.look(answer.headers["location"])


def sign_in(
    client: TestClient,
    engine: sa.Engine,
    shop: Prepared,
    role: Role = Role.ADMIN,
    app: str | None = None,
) -> Person:
    """Return somebody with *role*, who sees *app* alone; None: all apps."""
    key = write_by(engine, create_key, app=app, role=role, name="ada").text
    answer = client.post("/sign-in", data={"secret": key}, headers=OWN)
    assert 303 == answer.status_code
    return Person(client, shop)

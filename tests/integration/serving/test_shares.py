"""Who asks for much at once leaves threads to others."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import sqlalchemy as sa
from fastapi import APIRouter, FastAPI
from starlette.responses import Response

from api.answers import ROOT
from api.guarding import ApiRoute
from models.role import Role
from serving.context import Viewer
from tests.integration.api.conftest import OTHER, UNLIMITED, run_web
from tests.servers import PATIENCE_S, wait_until

#: As the settings have it.
THREADS = 8


def test_nobody_has_all_threads(engine: sa.Engine, tmp_path: Path):
    """While those of one small app take half of them, another's is answered."""
    router = APIRouter(route_class=ApiRoute)
    roles = Role.VIEWER, Role.EDITOR  # a key of each
    begun: list[str] = []
    may_end = threading.Event()

    @router.get(f"{ROOT}/slow")
    def be_slow(context: Viewer) -> Response:
        begun.append(context.caller.owner)
        assert may_end.wait(PATIENCE_S)
        return Response()

    with (
        run_web(engine, tmp_path, UNLIMITED) as web,
        ThreadPoolExecutor(2 * THREADS) as pool,
    ):
        assert isinstance(web.client.app, FastAPI)
        web.client.app.router.routes.extend(router.routes)
        slow = [
            pool.submit(web.get, "/slow", role=roles[number % 2])
            for number in range(THREADS + 2)
        ]
        try:
            wait_until(lambda: len(begun) == THREADS / 2)
            path = f"/apps/{OTHER}"
            other = pool.submit(web.get, path, app=OTHER, role=Role.VIEWER)
            assert 200 == other.result(PATIENCE_S).status_code
            assert THREADS / 2 == len(begun)
        finally:
            may_end.set()

        assert {200} == {each.result().status_code for each in slow}
        assert THREADS + 2 == len(begun)

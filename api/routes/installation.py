"""What is installed here, and a support bundle."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from api.answers import ROOT, answer
from api.guarding import ApiRoute
from overview.doctor.finding import Finding
from overview.installation.installed import InstallationJson, fetch_installation
from overview.installation.support_bundle import BundleJson, make_bundle
from serving.context import Admin, Context
from serving.guarding import heavy

router = APIRouter(prefix=ROOT, tags=["system"], route_class=ApiRoute)


@router.get("/installation", response_model=InstallationJson)
def read_installation(context: Admin) -> Response:
    """
    Return versions, settings in effect without secrets, and how long what is kept.

    This needs a key of the installation.
    """
    context.demand_installation("what is installed")
    with context.reading() as connection:
        found = fetch_installation(connection, context.services.settings)
    return answer(found.as_json())


@router.get("/support-bundle", response_model=BundleJson)
@heavy
async def read_support_bundle(context: Admin) -> Response:
    """
    Return what somebody who helps from afar needs to see: no secret, no tenant's data.

    This needs a key of the installation.
    """
    context.demand_installation("a support bundle")
    findings, _age = await context.services.examine()
    response = await run_in_threadpool(_make, context, findings)
    name = 'attachment; filename="minutehand-support.json"'
    response.headers["Content-Disposition"] = name
    return response


def _make(context: Context, findings: list[Finding]) -> Response:
    with context.reading() as connection:
        return answer(make_bundle(connection, context.services.settings, findings))

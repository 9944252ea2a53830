"""``support-bundle``: what somebody who helps from afar needs to see."""

from __future__ import annotations

import sys

from cli.connection import get_engine, get_settings, read_database
from models.json_form import write_json
from overview.doctor.examine import find_trouble
from overview.installation.support_bundle import make_bundle


def support_bundle() -> None:
    """
    Print a support bundle as JSON, without secrets and data of small apps.

    It has what doctor finds, status, versions, settings, who led, and the failures of a
    day by reason.
    """
    settings = get_settings()
    findings = list(find_trouble(get_engine(), settings))
    with read_database() as connection:
        bundle = make_bundle(connection, settings, findings)
    sys.stdout.write(f"{write_json(bundle, indent=2)}\n")

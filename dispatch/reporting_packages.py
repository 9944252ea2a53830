"""Log what installed packages add, and what of it cannot be used."""

from __future__ import annotations

import structlog

from dispatch.packages import find_packages
from models.installed import INSTALLED, Packages
from telemetry import Event

log = structlog.get_logger()


def report_packages() -> Packages:
    """Look for packages now, and log what cannot be used, and what can."""
    INSTALLED.find_by(find_packages)
    packages = INSTALLED.get()
    for refusal in packages.refusals:
        log.error(
            Event.PACKAGE_REFUSED,
            package=refusal.package,
            kind=f"{refusal.what} {refusal.name}",
            error=refusal.reason,
        )
    for (what, name), package in packages.origins.items():
        log.info(Event.PACKAGE_USED, package=package, kind=f"{what} {name}")
    return packages

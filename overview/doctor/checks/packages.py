"""What doctor finds in the packages that add steps, sources and rules."""

from __future__ import annotations

from collections.abc import Iterator

from models.installed import INSTALLED
from overview.doctor.finding import Finding, Health, View


def look_at_packages(view: View) -> Iterator[Finding]:  # noqa: ARG001 - the shape of a look
    """Look for packages that cannot be used; name those that can."""
    packages = INSTALLED.get()
    for refusal in packages.refusals:
        yield Finding("packages", Health.DOUBTFUL, refusal.describe())
    if packages.origins:
        named = ", ".join(
            f"{what} {name!r} of {package}"
            for (what, name), package in packages.origins.items()
        )
        yield Finding("packages", Health.GOOD, f"in use here: {named}")

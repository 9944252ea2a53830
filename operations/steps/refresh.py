"""
refresh: read domains from their sources into new staged versions.

All or nothing: every domain is read into a draft first, and only then the staged
pointers move, in one transaction. After a failure they are as before.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pydantic import JsonValue

from models.errors import StepError
from models.operation import RefreshModel
from models.units import format_bytes, format_count
from operations.domains import Domain, DomainDraft, Reading, ReadRequest, Tell
from operations.operation_log import LogLevel
from operations.ports import StepContext, StepResult
from operations.running.platform_errors import blaming_platform


def refresh(context: StepContext, asked: RefreshModel) -> StepResult:
    """
    Refresh the domains *asked* for; None means all present domains.

    Returns:
        ``refreshed`` and ``reused``: names of domains, in order; ``rows`` and
        ``versions`` of the refreshed ones; ``columns``, if those of some changed.

    Raises:
        StepError: Permanent for an unknown domain or unreadable content, temporary
            for network and locks.
        PlatformError: The workspace cannot be used.
    """
    domains = _choose(context, asked)
    workspace = context.ports.workspace
    drafts: list[DomainDraft] = []
    reused: list[str] = []
    paths = []
    try:
        for done, domain in enumerate(domains):
            context.progress(done, len(domains), domain.name)
            path = workspace.draft_path(context.app, domain.name)
            paths.append(path)
            tell = partial(context.progress, done, len(domains), domain.name)
            reading = _read(context, asked, domain, path, tell)
            if reading is None:
                reused.append(domain.name)
                context.say(f"{domain.name}: reused, as the source is unchanged")
            else:
                drafts.append(DomainDraft(domain.name, path, reading))
                size = format_bytes(path.stat().st_size)
                why = _say_why(domain, asked)
                rows = format_count(reading.rows, "row", "rows")
                context.say(f"{domain.name}: read {rows}, {size}; {why}")
                if domain.staged is not None and reading.drift is not None:
                    told = (
                        f"{domain.name}: its columns are not those of version"
                        f" {domain.staged.number}: {reading.drift.describe()}"
                    )
                    context.say(told, level=LogLevel.WARNING)

        context.progress(len(domains), len(domains))
        versions = workspace.stage(context.claimant, drafts)
        for name, version in versions.items():
            context.say(f"{name}: version {version} is staged")
    finally:
        # Staged drafts have been renamed; this removes the others.
        workspace.discard(paths)

    result: dict[str, JsonValue] = {
        "refreshed": [draft.domain for draft in drafts],
        "reused": list(reused),
        "rows": {draft.domain: draft.reading.rows for draft in drafts},
        "versions": dict(versions),
    }
    drifts = {draft.domain: draft.reading.drift for draft in drafts}
    drifted: dict[str, JsonValue] = {
        name: drift.as_json() for name, drift in drifts.items() if drift is not None
    }
    return {**result, "columns": drifted} if drifted else result


def _read(
    context: StepContext, asked: RefreshModel, domain: Domain, path: Path, tell: Tell
) -> Reading | None:
    """Read *domain* into *path*; None if it can be reused."""
    staged = domain.staged
    # If the file of the staged version is gone, the domain must be read again.
    is_there = staged is not None and not asked.force and staged.path.is_file()
    with blaming_platform(path.parent):
        known = staged.fingerprint if staged and is_there else None
        request = ReadRequest(context.app, domain, path, known, tell)
        return context.ports.sources.read(request)


def _say_why(domain: Domain, asked: RefreshModel) -> str:
    """Say why *domain* was read, and not reused."""
    if domain.staged is None:
        return "it had no version yet"
    if asked.force:
        return "reading was forced"
    if not domain.staged.path.is_file():
        return f"the file of version {domain.staged.number} was gone"
    return f"the source has changed since version {domain.staged.number}, or may have"


def _choose(context: StepContext, asked: RefreshModel) -> tuple[Domain, ...]:
    domains = {
        domain.name: domain
        for domain in context.ports.workspace.fetch_domains(context.app)
    }
    if asked.domains is None:
        return tuple(domains.values())

    unknown = [name for name in asked.domains if name not in domains]
    if unknown:
        known = ", ".join(map(repr, domains)) or "none"
        msg = (
            f"small app {context.app!r} has no domain "
            f"{', '.join(map(repr, unknown))}; it has {known}."
        )
        raise StepError(msg, permanent=True)

    return tuple(domains[name] for name in dict.fromkeys(asked.domains))

"""
refresh: read domains from their sources into new staged versions.

All or nothing: every domain is read into a draft first, and only then the staged
pointers move, in one transaction. After a failure they are as before.
"""

from __future__ import annotations

from models.errors import StepError
from models.operation import RefreshModel
from operations.domains import Domain, Draft, format_bytes
from operations.ports import StepContext, StepResult
from operations.running.platform_errors import blaming_platform


def refresh(context: StepContext, asked: RefreshModel) -> StepResult:
    """
    Refresh the domains *asked* for; None means all present domains.

    Returns:
        ``refreshed`` and ``reused``: names of domains, in order; ``rows`` and
        ``versions`` of the refreshed ones.

    Raises:
        StepError: Permanent for an unknown domain or unreadable content, temporary
            for network and locks.

        PlatformError: The workspace cannot be used.
    """
    domains = _choose(context, asked)
    workspace = context.ports.workspace
    drafts: list[Draft] = []
    reused: list[str] = []
    paths = []
    try:
        for done, domain in enumerate(domains):
            context.progress(done, len(domains), domain.name)
            path = workspace.draft_path(context.app, domain.name)
            paths.append(path)
            # If the file of the staged version is gone, the domain must be read again.
            known = (
                domain.staged.fingerprint
                if domain.staged and not asked.force and domain.staged.path.is_file()
                else None
            )
            with blaming_platform(path.parent, "workspace"):
                reading = context.ports.sources.read(
                    context.app, domain, known=known, target=path
                )
            if reading is None:
                reused.append(domain.name)
                context.say(f"{domain.name}: reused, as the source is unchanged")
            else:
                drafts.append(Draft(domain.name, path, reading))
                size = format_bytes(path.stat().st_size)
                why = _say_why(domain, asked)
                context.say(f"{domain.name}: read {reading.rows:,} rows, {size}; {why}")

        context.progress(len(domains), len(domains))
        versions = workspace.stage(
            context.app,
            drafts,
            operation_id=context.operation_id,
            now=context.now,
            guard=context.guard,
        )
        for name, version in versions.items():
            context.say(f"{name}: version {version} is staged")
    finally:
        # Staged drafts have been renamed; this removes the others.
        workspace.discard(paths)

    return {
        "refreshed": [draft.domain for draft in drafts],
        "reused": list(reused),
        "rows": {draft.domain: draft.reading.rows for draft in drafts},
        "versions": dict(versions),
    }


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

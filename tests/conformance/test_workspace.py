"""A workspace, in memory and on a folder and both databases, keeps its promises."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import polars as pl
import pytest
import sqlalchemy as sa
from pydantic import JsonValue

from models.database.tables import app_documents, domains, small_apps
from models.errors import ClaimLostError
from operations.adapters.workspace import RealWorkspace
from operations.domains import Domain, DomainDraft, Fingerprint, Move, Reading
from operations.ports import Claimant, Workspace
from tests.unit.operations.fakes import FakeWorkspace, failing

APP = "shop"
NOW = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)
OPERATION = UUID("3771f246-cc92-5326-b56a-8665f62de245")
KINDS = ("data", "design", "permissions")
DESIGN: JsonValue = {"colour": "red"}


def hold(_connection: sa.Connection) -> None:
    """Be the guard of a claim that holds."""


def lose(_connection: sa.Connection) -> None:
    """Be the guard of a claim that was lost."""
    raise ClaimLostError


OURS = Claimant(APP, OPERATION, NOW, hold)
LOST = Claimant(APP, OPERATION, NOW, lose)


@dataclass
class Case:
    """A workspace of one app that has the domains a and b, and a staged design."""

    workspace: Workspace

    def draft(self, name: str) -> DomainDraft:
        """Read a domain into a draft."""
        path = self.workspace.draft_path(APP, name)
        pl.DataFrame({"n": [1, 2]}).write_parquet(path)
        return DomainDraft(name, path, Reading(2, Fingerprint(source=name, etag="e")))

    def stage(self, *names: str) -> dict[str, int]:
        """Stage a version of each domain of *names*."""
        drafts = [self.draft(name) for name in names]
        return self.workspace.stage(OURS, drafts)

    def publish(self, *kinds: str) -> tuple[Move, ...]:
        """Publish *kinds*."""
        return self.workspace.publish(OURS, kinds)

    def find_pointers(self) -> dict[str, tuple[int | None, int | None]]:
        """Return the numbers of what is staged and live, by domain."""
        return {
            each.name: (
                each.staged.number if each.staged else None,
                each.live.number if each.live else None,
            )
            for each in self.workspace.fetch_domains(APP)
        }


@pytest.fixture(params=["memory", "postgresql", "sqlite"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    """Give each workspace there is."""
    if request.param == "memory":
        return Case(
            FakeWorkspace(
                tmp_path,
                app=APP,
                domains={name: Domain(name, {"file": name}) for name in "ba"},
                staged_documents={"design": DESIGN},
            )
        )
    engine: sa.Engine = request.getfixturevalue(f"{request.param[:8]}_engine")
    with engine.begin() as connection:
        connection.execute(small_apps.insert().values(uid=APP, name="Shop"))
        connection.execute(
            domains.insert(),
            [{"app": APP, "name": name, "source": {"file": name}} for name in "ba"],
        )
        connection.execute(
            app_documents.insert().values(app=APP, part="design", staged=DESIGN)
        )
    return Case(RealWorkspace(engine, tmp_path / "workspace"))


def test_domains_come_by_name(case: Case) -> None:
    """Each with its source, and nothing of another app."""
    found = case.workspace.fetch_domains(APP)

    assert [("a", {"file": "a"}), ("b", {"file": "b"})] == [
        (each.name, each.source) for each in found
    ]
    assert () == case.workspace.fetch_domains("other")


def test_what_was_staged_is_found_again(case: Case) -> None:
    """With what was read from where, and a file that is there; the draft is not."""
    draft = case.draft("a")
    numbers = case.workspace.stage(OURS, [draft])

    staged = case.workspace.fetch_domains(APP)[0].staged
    assert {"a": 1} == numbers
    assert staged is not None
    assert (1, 2, NOW) == (staged.number, staged.rows, staged.created_at)
    assert draft.reading.fingerprint == staged.fingerprint
    assert staged.size == staged.path.stat().st_size
    assert not draft.path.exists()


def test_versions_are_numbered_by_domain(case: Case) -> None:
    """From 1, one more each time."""
    case.stage("a")

    assert {"a": 2, "b": 1} == case.stage("a", "b")
    assert {"a": (2, None), "b": (1, None)} == case.find_pointers()


def test_nothing_is_staged_without_drafts(case: Case) -> None:
    """A refresh that found all as it was does not ask for its claim."""
    found = case.workspace.stage(LOST, [])

    assert {} == found


def test_lost_claim_stages_and_publishes_nothing(case: Case) -> None:
    """The guard is asked before anything is written."""
    case.stage("a")
    drafts = [case.draft("a")]

    with pytest.raises(ClaimLostError):
        case.workspace.stage(LOST, drafts)
    with pytest.raises(ClaimLostError):
        case.workspace.publish(LOST, ("data",))

    assert {"a": (1, None), "b": (None, None)} == case.find_pointers()


def test_kinds_that_are_staged_are_found(case: Case) -> None:
    """In the order they were asked for, and none of another app."""
    before = case.workspace.fetch_staged(APP, KINDS)
    case.stage("b")

    assert ("design",) == before
    assert ("design", "data") == case.workspace.fetch_staged(APP, KINDS[1::-1])
    assert () == case.workspace.fetch_staged("other", KINDS)


def test_publishing_moves_what_is_asked_for_once(case: Case) -> None:
    """What is live already does not move."""
    case.stage("a", "b")

    data = case.publish("data")
    both = case.publish("design", "data")
    again = case.publish("data", "design")

    assert (Move("data", "a", None, 1), Move("data", "b", None, 1)) == data
    assert (Move("design", "design", None, None),) == both
    assert () == again
    assert {"a": (1, 1), "b": (1, 1)} == case.find_pointers()


@pytest.mark.parametrize("missing", ["data", "permissions"])
def test_nothing_is_published_if_something_is_missing(case: Case, missing: str) -> None:
    """The error is permanent, and what comes before it does not move either."""
    with failing(f"nothing staged for {missing}", permanent=True):
        case.publish("design", missing)

    assert (Move("design", "design", None, None),) == case.publish("design")


def test_data_whose_file_is_gone_is_not_published(case: Case) -> None:
    """Live never points to a file that is not there."""
    case.stage("a", "b")
    gone = case.workspace.fetch_domains(APP)[0].staged
    assert gone is not None
    gone.path.unlink()

    with failing("is gone", permanent=True):
        case.publish("data")

    assert {"a": (1, None), "b": (1, None)} == case.find_pointers()


def test_drafts_that_are_not_staged_are_removed(case: Case) -> None:
    """Those that were never written, too."""
    written, unwritten = case.draft("a").path, case.workspace.draft_path(APP, "a")

    case.workspace.discard([written, unwritten])

    assert not written.exists()
    assert written != unwritten


def test_only_live_data_is_summarized(case: Case) -> None:
    """
    The summary names the domain, its live version and as many rows as it was asked for.
    """
    case.stage("a")
    with failing("never published", permanent=True):
        case.workspace.summarize(case.workspace.fetch_domains(APP)[0], head=1)
    case.publish("data")
    domain = case.workspace.fetch_domains(APP)[0]

    summary = case.workspace.summarize(domain, head=1)

    assert ("a", domain.live, 1) == (summary.domain, summary.version, len(summary.head))


def test_figures_of_a_summary_stay_with_the_domain(case: Case) -> None:
    """By action; what an action keeps replaces what it kept, and no domain is made."""
    case.stage("a")
    case.publish("data")
    for rows in (1, 2):
        kept: JsonValue = {"at": "2026-11-23T06:00:00Z", "rows": rows, "sums": {}}
        for uid in ("x", "y"):
            figures = {"a": kept, "gone": kept}
            case.workspace.keep_figures(OURS, uid, figures)

    domains = {each.name: each for each in case.workspace.fetch_domains(APP)}

    assert "gone" not in domains
    assert {"x": kept, "y": kept} == domains["a"].summarized

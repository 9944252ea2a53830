"""The workspace and its pruning, on both databases."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import polars as pl
import pytest
import sqlalchemy as sa

from models.database.tables import domain_versions, domains, small_apps
from models.errors import PlatformError
from operations.adapters.sources.sources import RealSources, digest_source
from operations.adapters.workspace import RealWorkspace
from operations.adapters.workspace_files import MOST_ACTIONS
from operations.domains import Domain, DomainDraft, Fingerprint, Reading, ReadRequest
from operations.mail.summary.content import Former
from operations.ports import Claimant
from operations.running.platform_errors import blaming_platform
from tests.unit.operations.fakes import failing, hold_claim

NOW = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)
APP = "../Demo"
OPERATION = UUID("3771f246-cc92-5326-b56a-8665f62de245")
WE = Claimant(APP, OPERATION, NOW, hold_claim)


@pytest.fixture
def workspace(engine: sa.Engine, tmp_path: Path) -> RealWorkspace:
    """Give a workspace with two domains of one app."""
    with engine.begin() as connection:
        connection.execute(small_apps.insert().values(uid=APP, name="Demo"))
        connection.execute(
            domains.insert(),
            [{"app": APP, "name": name, "source": {"file": name}} for name in "ab"],
        )
    return RealWorkspace(engine, tmp_path / "workspace")


def stage(
    workspace: RealWorkspace, *names: str, now: datetime = NOW, rows: int = 2
) -> dict[str, int]:
    drafts = []
    for name in names:
        path = workspace.draft_path(APP, name)
        pl.DataFrame({"n": range(rows), "f": [0.5] * rows}).write_parquet(path)
        print_of = Fingerprint(source=digest_source({"file": name}), etag="e")
        drafts.append(DomainDraft(name, path, Reading(rows, print_of)))
    return workspace.stage(Claimant(APP, OPERATION, now, hold_claim), drafts)


def find_pointers(workspace: RealWorkspace) -> dict[str, tuple[int | None, int | None]]:
    return {
        domain.name: (
            domain.staged.number if domain.staged else None,
            domain.live.number if domain.live else None,
        )
        for domain in workspace.fetch_domains(APP)
    }


def list_files(root: Path) -> list[str]:
    return sorted(p.relative_to(root).as_posix() for p in root.rglob("*.*"))


def test_files_have_their_place(workspace: RealWorkspace, tmp_path: Path):
    """Below the workspace, whatever the app is called."""
    stage(workspace, "a", "b")

    assert ["%2e%2e%2f%44emo/a/1.parquet", "%2e%2e%2f%44emo/b/1.parquet"] == list_files(
        tmp_path / "workspace"
    )


def test_number_that_a_crash_left_is_not_overwritten(workspace: RealWorkspace):
    """A file nobody names keeps its number; the next version takes another."""
    left = workspace.draft_path(APP, "a").with_name("1.parquet")
    left.write_text("left")

    numbers = stage(workspace, "a")

    assert {"a": 2} == numbers
    assert "left" == left.read_text()


def test_summary_has_the_figures_of_the_live_file(workspace: RealWorkspace):
    """Smallest, largest, sum and first rows come from the Parquet file."""
    stage(workspace, "a", rows=4)
    workspace.publish(WE, ("data",))

    summary = workspace.summarize(workspace.fetch_domains(APP)[0], head=1)

    assert [("n", 0, 3, 6), ("f", 0.5, 0.5, 2.0)] == [
        (c.name, c.minimum, c.maximum, c.total) for c in summary.columns
    ]
    assert ((0, 0.5),) == summary.head


def test_figures_of_a_few_actions_are_kept(workspace: RealWorkspace):
    """Those that sent a summary last; deleted actions do not stay for ever."""
    stage(workspace, "a")
    for number in range(MOST_ACTIONS + 2):
        figures = Former(NOW + timedelta(minutes=number), number, {"n": 1}).as_json()
        workspace.keep_figures(WE, f"x{number}", {"a": figures})

    kept = workspace.fetch_domains(APP)[0].summarized

    assert MOST_ACTIONS == len(kept)
    assert {f"x{number}" for number in range(2, MOST_ACTIONS + 2)} == kept.keys()


def test_old_versions_go_and_those_in_use_stay(
    workspace: RealWorkspace, tmp_path: Path
):
    """Staged, live, the one live before, and the newest; rows and files agree."""
    stage(workspace, "a")
    workspace.publish(WE, ("data",))
    for _ in range(4):
        stage(workspace, "a")
    later = NOW + timedelta(days=2)

    too_young = workspace.prune_versions(keep=1, now=NOW, limit=10)
    first = workspace.prune_versions(keep=1, now=later, limit=2)
    rest = workspace.prune_versions(keep=1, now=later, limit=2)

    assert (0, 2, 1) == (too_young, first, rest)
    assert {"a": (5, 1), "b": (None, None)} == find_pointers(workspace)
    folder = tmp_path / "workspace"
    assert ["1.parquet", "5.parquet"] == [Path(f).name for f in list_files(folder)]


def test_files_nobody_names_go_when_they_are_old(
    workspace: RealWorkspace, tmp_path: Path
):
    """Left drafts and versions; not named ones, young drafts and others' files."""
    stage(workspace, "a")
    folder = workspace.draft_path(APP, "a").parent
    for name in ("9.parquet", ".left.part", "notes.txt", ".young.part"):
        (folder / name).touch()
    for name in ("1.parquet", "9.parquet", ".left.part", "notes.txt"):
        os.utime(folder / name, (1_700_000_000, 1_700_000_000))

    removed = workspace.prune_files(before=datetime(2024, 1, 1, tzinfo=UTC), limit=10)

    assert 2 == removed
    assert [".young.part", "1.parquet", "notes.txt"] == sorted(
        path.name for path in folder.iterdir()
    )
    assert 0 == RealWorkspace(workspace._engine, tmp_path / "none").prune_files(
        before=NOW, limit=1
    )


def test_version_rows_remember_their_operation(
    engine: sa.Engine, workspace: RealWorkspace
):
    """Each version says which operation made it, and has the digest of its file."""
    stage(workspace, "a")

    with engine.connect() as connection:
        row = connection.execute(sa.select(domain_versions)).one()
    assert (OPERATION, 64) == (row.operation_id, len(row.sha256))


def test_refresh_each_minute_leaves_few_versions(
    workspace: RealWorkspace, tmp_path: Path
):
    """Old ones go with each staging, and not only when maintenance runs."""
    for minute in range(40):
        stage(workspace, "a", now=NOW + timedelta(minutes=minute))

    # the newest, those of the quarter of an hour before it
    assert 16 == len(list_files(tmp_path / "workspace"))
    assert {"a": (40, None), "b": (None, None)} == find_pointers(workspace)


def test_app_with_no_room_keeps_what_is_in_use(
    workspace: RealWorkspace, tmp_path: Path
):
    """What nobody needs goes first; what does not fit then is refused, for good."""
    stage(workspace, "a")
    workspace.publish(WE, ("data",))
    size = sum(path.stat().st_size for path in tmp_path.rglob("*.parquet"))
    narrow = RealWorkspace(
        workspace._engine, tmp_path / "workspace", most_bytes=size * 7 // 2
    )
    for minute in (2, 4, 6, 8):
        stage(narrow, "a", now=NOW + timedelta(minutes=minute))
    assert {"a": (5, 1), "b": (None, None)} == find_pointers(narrow)
    tight = RealWorkspace(
        workspace._engine, tmp_path / "workspace", most_bytes=size * 5 // 2
    )

    with failing("MINUTEHAND_WORKSPACE_PER_APP", permanent=True):
        stage(tight, "a", now=NOW + timedelta(minutes=10))

    assert {"a": (5, 1), "b": (None, None)} == find_pointers(tight)
    versions = [f for f in list_files(tmp_path / "workspace") if f.endswith("parquet")]
    assert ["1.parquet", "5.parquet"] == [Path(f).name for f in versions]


def test_drafts_of_dead_workers_go_before_the_next(workspace: RealWorkspace):
    """A refresh that is killed again and again does not fill the disk."""
    left = workspace.draft_path(APP, "a")
    young = workspace.draft_path(APP, "a")
    for path in (left, left.with_name(f"{left.name}.download"), young):
        path.touch()
        if path != young:
            os.utime(path, (1_700_000_000, 1_700_000_000))

    draft = workspace.draft_path(APP, "a")

    assert [young] == list(draft.parent.iterdir())


def test_workspace_that_cannot_be_made_is_ours(engine: sa.Engine, tmp_path: Path):
    """Whatever is wrong with it, no domain is to blame."""
    (tmp_path / "file").touch()

    with pytest.raises(PlatformError, match="cannot be used: Not a directory"):
        RealWorkspace(engine, tmp_path / "file" / "data").draft_path(APP, "a")


def test_workspace_that_is_not_mounted_is_left_alone(
    workspace: RealWorkspace, tmp_path: Path
):
    """What was written then would lie below its mount, on the system's disk."""
    stage(workspace, "a")
    workspace.publish(WE, ["data"])
    stage(workspace, "a")
    [live] = [d for d in workspace.fetch_domains(APP) if d.name == "a"]
    mounted = tmp_path / "workspace"
    mounted.rename(tmp_path / "elsewhere")
    mounted.mkdir()

    for touch in (
        lambda: workspace.draft_path(APP, "b"),
        lambda: workspace.publish(WE, ["data"]),
        lambda: workspace.summarize(live, head=1),
    ):
        with pytest.raises(PlatformError, match=r"is empty, .*: is it mounted"):
            touch()
    assert [] == list(mounted.iterdir())
    mounted.rmdir()
    (tmp_path / "elsewhere").rename(mounted)
    workspace.publish(WE, ["data"])


def test_workspace_that_was_emptied_on_purpose_is_filled_anew(
    workspace: RealWorkspace, tmp_path: Path
):
    """Somebody says so by making a folder in it."""
    stage(workspace, "a")
    shutil.rmtree(tmp_path / "workspace")
    (tmp_path / "workspace" / "new").mkdir(parents=True)

    assert {"a": 2} == stage(workspace, "a")


@contextmanager
def full_disk() -> Iterator[None]:
    """Let no file grow beyond 4096 bytes, which is met as a full disk is."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_draft_that_does_not_fit_is_ours(
    workspace: RealWorkspace, tmp_path: Path, suffix: str
):
    """Polars says it in an error of its own, as it would of unreadable content."""
    source = tmp_path / f"sales.{suffix}"
    frame = pl.DataFrame({"n": range(9999)})
    frame.write_csv(source) if suffix == "csv" else frame.write_parquet(source)
    real = RealSources()
    domain = Domain("a", {"file": source.name}, folder=tmp_path)
    path = workspace.draft_path(APP, "a")

    with (
        pytest.raises(PlatformError, match="does not accept a file that large"),
        full_disk(),
        blaming_platform(path.parent),
    ):
        real.read(ReadRequest(APP, domain, path))
    workspace.discard([path])

    assert [] == list(path.parent.iterdir())

"""refresh, on fakes."""

from __future__ import annotations

import pytest

from models.errors import CanceledError, ClaimLostError, StepError
from models.operation import RefreshModel
from operations.domains import Domain, Drift, Reached
from operations.operation_log import LogLevel
from operations.steps.refresh import refresh
from tests.unit.operations.fakes import FakeProgress, World

EVERYTHING = RefreshModel()


@pytest.fixture
def world(world: World) -> World:
    """Give two domains of three and five rows, whose sources have ETags."""
    for name, rows in (("a", 3), ("b", 5)):
        world.workspace.domains[name] = Domain(name, {"file": f"{name}.csv"})
        world.sources.rows[f"{name}.csv"] = rows
        world.sources.etags[f"{name}.csv"] = "1"
    return world


def test_all_domains_of_the_moment_are_refreshed(world: World):
    """Without a list every domain there is now is read, in order."""
    result = refresh(world.make_context(), EVERYTHING)

    assert {
        "refreshed": ["a", "b"],
        "reused": [],
        "rows": {"a": 3, "b": 5},
        "versions": {"a": 1, "b": 1},
    } == result
    assert [(0, 2, "a"), (1, 2, "b"), (2, 2, "")] == world.progress.points


def test_named_domains_alone_are_touched(world: World):
    """A list touches the domains it names, each once."""
    refresh(world.make_context(), RefreshModel(domains=("b", "b")))

    assert ["b.csv"] == world.sources.reads
    assert world.workspace.domains["a"].staged is None


def test_unknown_domain_is_permanent_and_names_what_exists(world: World):
    """A typo fails at once, says what there is, and reads nothing."""
    with pytest.raises(StepError, match=r"no domain 'c'; it has 'a', 'b'") as caught:
        refresh(world.make_context(), RefreshModel(domains=("a", "c")))

    assert caught.value.permanent
    assert [] == world.sources.reads


def test_unchanged_source_is_reused(world: World):
    """The second refresh reads what changed and reuses the rest."""
    refresh(world.make_context(), EVERYTHING)
    world.sources.etags["b.csv"] = "2"

    result = refresh(world.make_context(), EVERYTHING)

    assert (["b"], ["a"]) == (result["refreshed"], result["reused"])


def test_staged_version_without_its_file_is_read_again(world: World):
    """An unchanged source is no reason to reuse data that is gone."""
    refresh(world.make_context(), EVERYTHING)
    staged = world.workspace.domains["a"].staged
    assert staged is not None
    staged.path.unlink()

    result = refresh(world.make_context(), EVERYTHING)

    assert ["a"] == result["refreshed"]


def test_failure_leaves_staging_as_it_was(world: World):
    """If the second domain fails, the first is not staged, and no draft is left."""
    world.sources.errors["b.csv"] = StepError("b.csv: torn", permanent=True)

    with pytest.raises(StepError, match="torn"):
        refresh(world.make_context(), EVERYTHING)

    assert world.workspace.domains["a"].staged is None
    assert [] == list(world.root.iterdir())


def test_cancellation_between_domains_leaves_staging(world: World):
    """Canceled at the second domain, nothing is staged and no draft is left."""
    world.progress = FakeProgress(cancel_at=2)

    with pytest.raises(CanceledError):
        refresh(world.make_context(), EVERYTHING)

    assert [] == world.workspace.stagings
    assert [] == list(world.root.iterdir())


def test_lost_claim_stages_nothing(world: World):
    """A worker that was taken over while it read changes nothing."""

    def lose(_connection: object) -> None:
        raise ClaimLostError

    world.guard = lose

    with pytest.raises(ClaimLostError):
        refresh(world.make_context(), EVERYTHING)

    assert world.workspace.domains["a"].staged is None


def test_progress_says_how_far_a_domain_is(world: World):
    """What the source tells is passed on, and so is that nobody knows."""
    reached = Reached("download", 1, 4, "bytes")
    world.sources.tells = (reached, None)

    refresh(world.make_context(), RefreshModel(domains=("a",)))

    assert [(0, 1, "a")] * 3 + [(1, 1, "")] == world.progress.points
    assert [reached] == world.progress.parts


def test_changed_columns_are_told_and_fail_nothing(world: World):
    """The result and the log have them, and no domain whose columns stayed."""
    refresh(world.make_context(), EVERYTHING)
    world.sources.etags["a.csv"] = world.sources.etags["b.csv"] = "2"
    world.sources.drifts["a.csv"] = Drift(
        added=(("vat", "Float64"),), retyped=(("price", "Int64", "String"),)
    )

    result = refresh(world.make_context(), EVERYTHING)

    assert ["a", "b"] == result["refreshed"]
    assert {
        "a": {
            "added": {"vat": "Float64"},
            "removed": {},
            "retyped": {"price": "Int64 to String"},
            "more": 0,
        }
    } == result["columns"]
    told = (
        "a: its columns are not those of version 1: added vat (Float64); "
        "price is String, was Int64"
    )
    assert (LogLevel.WARNING, told) in world.log.lines


def test_log_says_what_was_read_and_why(world: World):
    """Or why it was not; and which versions are staged."""
    refresh(world.make_context(), EVERYTHING)
    world.sources.etags["b.csv"] = "2"
    world.log.lines.clear()
    refresh(world.make_context(), EVERYTHING)
    refresh(world.make_context(), RefreshModel(domains=("a",), force=True))

    assert [
        "a: reused, as the source is unchanged",
        "b: read 5 rows, 6 B; the source has changed since version 1, or may have",
        "b: version 2 is staged",
        "a: read 3 rows, 6 B; reading was forced",
        "a: version 2 is staged",
    ] == [text for _level, text in world.log.lines]

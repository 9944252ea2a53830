"""publish, on fakes."""

from __future__ import annotations

import pytest

from models.errors import StepError
from models.operation import PublishModel, RefreshModel
from operations.domains import Domain
from operations.steps.publish import publish
from operations.steps.refresh import refresh
from tests.unit.operations.fakes import World


@pytest.fixture
def world(world: World) -> World:
    """Give a refreshed domain and staged documents."""
    world.workspace.domains["a"] = Domain("a", {"file": "a.csv"})
    world.sources.rows["a.csv"] = 3
    world.workspace.staged_documents |= {"design": {"x": 1}, "permissions": {}}
    refresh(world.make_context(), RefreshModel())
    return world


def test_data_alone_moves_data_alone(world: World):
    """Only what is asked for moves, and the result says what did."""
    result = publish(world.make_context(), PublishModel(data=True))

    assert {
        "published": ["data"],
        "moved": [{"kind": "data", "name": "a", "before": None, "after": 1}],
    } == result
    assert {} == world.workspace.live_documents


def test_nothing_staged_is_permanent(world: World):
    """Publishing what was never staged fails for good."""
    world.workspace.staged_documents.clear()

    with pytest.raises(StepError) as caught:
        publish(world.make_context(), PublishModel(design=True))

    assert caught.value.permanent


def test_all_three_are_whatever_is_staged(world: World):
    """``true`` publishes the data of an app that has no documents."""
    world.workspace.staged_documents.clear()
    everything = PublishModel(data=True, design=True, permissions=True)

    result = publish(world.make_context(), everything)

    assert ["data"] == result["published"]


def test_nothing_staged_at_all_says_what_to_do(world: World):
    """An app that never staged anything has nothing to publish; both ways are told."""
    world.workspace.staged_documents.clear()
    world.workspace.domains.clear()
    everything = PublishModel(data=True, design=True, permissions=True)

    with pytest.raises(StepError, match=r'"refresh".*apply documents') as caught:
        publish(world.make_context(), everything)

    assert caught.value.permanent


def test_progress_ends_with_everything_done(world: World):
    """Whoever looks at the end sees all of it done; mails are a step of their own."""
    publish(world.make_context(), PublishModel(data=True, design=True))

    assert [(0, 2, "data, design"), (2, 2, "")] == world.progress.points[-2:]
    assert [False] == world.workspace.notified


def test_log_says_what_is_live(world: World):
    """With the version before, or that nothing moved."""
    publish(world.make_context(), PublishModel(data=True))
    publish(world.make_context(), PublishModel(data=True))

    texts = [text for _level, text in world.log.lines]
    assert "data a: version 1 is live, nothing was" in texts
    assert "nothing moved: what is staged was live already" == texts[-1]

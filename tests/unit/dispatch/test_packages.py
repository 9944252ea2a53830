"""What installed packages add, and what becomes of those that are broken."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dispatch.packages import find_packages
from models.installed import INSTALLED, Packages
from models.operation import explain_unknown_steps

Install = Callable[..., None]

STEP = """
from models.extending import InstalledStep
class Step(InstalledStep):
    def run(self, context):
        return {}
"""

#: Without a field of its name.
WHEN = """
from models.when import InstalledWhen
class X(InstalledWhen):
    def next_from(self, local): ...
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Give a function that installs a package of one module and some entry points."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def do(name: str, code: str, **entries: str) -> None:
        """Each of *entries* is ``group_name="Class"``, with the group's last word."""
        (tmp_path / f"{name}.py").write_text(code)
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        )
        lines = []
        for key, target in entries.items():
            group, _, kind = key.partition("_")
            lines.append(f"[minutehand.{group}]\n{kind} = {name}:{target}")
        (info / "entry_points.txt").write_text("\n".join(lines))

    yield do
    for module in set(sys.modules) - before:
        del sys.modules[module]


def find_reasons(packages: Packages) -> list[str]:
    return [refusal.describe() for refusal in packages.refusals]


def test_without_packages_there_is_nothing() -> None:
    """
    The packages that Minutehand itself needs add no kinds.
    """
    assert Packages() == find_packages()


def test_each_kind_is_found_with_its_package(install: Install) -> None:
    """
    By the name of its entry point.
    """
    install("extras", STEP, steps_archive="Step")

    packages = find_packages()

    assert ["archive"] == list(packages.steps)
    assert {("step", "archive"): "extras 1.0"} == packages.origins
    assert () == packages.refusals


@pytest.mark.parametrize(
    ("code", "entries", "reason"),
    [
        ("1 / 0", {"steps_x": "X"}, "cannot be loaded: ZeroDivisionError"),
        ("raise SystemExit", {"steps_x": "X"}, "cannot be loaded: SystemExit"),
        ("", {"steps_x": "X"}, "cannot be loaded: AttributeError"),
        ("import no_such", {"sources_x": "X"}, "cannot be loaded: ModuleNotFound"),
        ("X = 1", {"steps_x": "X"}, "no class that derives from models.extending.Ins"),
        (STEP, {"when_x": "Step"}, "no class that derives from models.when.Installed"),
        (
            "from models.extending import InstalledStep as X",
            {"steps_x": "X"},
            "its class has no method run",
        ),
        (
            WHEN,
            {"when_x": "X"},
            "has no field 'x'",
        ),
        (STEP, {"steps_refresh": "Step"}, "Minutehand has that itself"),
        (STEP, {"sources_format": "Step"}, "Minutehand has that itself"),
        (STEP, {"when_timezone": "Step"}, "Minutehand has that itself"),
        (STEP, {"steps_X-Y": "Step"}, "a name has small letters"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(
    install: Install, code: str, entries: dict[str, str], reason: str
) -> None:
    """
    The package and the reason are told, nothing is raised, and others are used.
    """
    install("broken", code, **entries)
    install("good", STEP, steps_archive="Step")

    packages = find_packages()

    (told,) = find_reasons(packages)
    assert reason in told
    assert "of package broken 1.0" in told
    assert ["archive"] == list(packages.steps)


def test_second_package_of_a_name_is_refused(install: Install) -> None:
    """
    Which of two would run must not depend on the order in which they were installed.
    """
    install("one", STEP, steps_archive="Step")
    install("two", STEP, steps_archive="Step")

    packages = find_packages()

    assert ["archive"] == list(packages.steps)
    told = (
        "step 'archive' of package two 1.0: package one 1.0 has one of that name."
        " Uninstall one of the two."
    )
    assert [told] == find_reasons(packages)


def test_step_that_is_missing_says_why(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A package that is broken is named; for one that is not there, what to do.
    """
    install("broken", "1 / 0", steps_archive="X")
    monkeypatch.setattr(INSTALLED, "_found", find_packages())

    assert "Package broken 1.0 cannot add it" in explain_unknown_steps(["archive"])
    assert "Install the package" in explain_unknown_steps(["other"])

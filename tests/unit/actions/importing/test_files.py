"""Documents become files, whole or not at all, and never over others unasked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actions.importing.origins.imported import Imported, ImportVerdict
from cli.import_actions import write_files
from models.errors import ConflictError, UsageError

BOTH = [
    Imported("a", "", ImportVerdict.EXACT, (), "a.json", {"name": "ä"}),
    Imported("b", "", ImportVerdict.CANNOT_BE, ("no",)),
    Imported("c", "", ImportVerdict.EXACT, (), "c.json", {"name": "c"}),
]


def test_each_document_is_a_file(tmp_path: Path):
    """In a folder that is made; what cannot be has none."""
    folder = tmp_path / "new" / "folder"

    assert write_files(folder, BOTH) == 2
    assert sorted(path.name for path in folder.iterdir()) == ["a.json", "c.json"]
    assert json.loads((folder / "a.json").read_text("utf-8")) == {"name": "ä"}


def test_files_that_are_there_are_left_alone(tmp_path: Path):
    """Unless it is asked for; and if one is there, none is written."""
    (tmp_path / "c.json").write_text("mine")

    with pytest.raises(ConflictError, match=r"c\.json.*--overwrite"):
        write_files(tmp_path, BOTH)
    assert [path.name for path in tmp_path.iterdir()] == ["c.json"]

    assert write_files(tmp_path, BOTH, overwrite=True) == 2
    assert json.loads((tmp_path / "c.json").read_text()) == {"name": "c"}


def test_a_file_in_the_place_of_the_folder_is_told(tmp_path: Path):
    """The message has the path and the reason."""
    place = tmp_path / "file"
    place.write_text("")

    with pytest.raises(UsageError, match="file"):
        write_files(place, BOTH)

"""Files that tenants name, on a real file system: below their folder, or not at all."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from models.errors import StepError
from operations.adapters.sources.sources import open_source_file
from tests.unit.operations.fakes import failing


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give the folder of an app, with a secret beside it."""
    (tmp_path / "secret").write_text("secret")
    made = tmp_path / "app"
    (made / "data").mkdir(parents=True)
    (made / "data" / "a.csv").write_text("a\n1\n")
    return made


def read(folder: Path, file: str, *, private: tuple[Path, ...] = ()) -> str:
    descriptor = open_source_file(folder, file, private=private)
    with os.fdopen(descriptor) as opened:
        return opened.read()


@pytest.mark.parametrize(
    "file", ["data/a.csv", "./data//a.csv", "data/../data/a.csv", "{folder}/data/a.csv"]
)
def test_files_below_the_folder_are_read(folder: Path, file: str):
    """However they are written, absolute or not."""
    assert "a\n1\n" == read(folder, file.format(folder=folder))


@pytest.mark.parametrize(
    "text",
    ["data/a.csv", "./data/../data/a.csv", "data/again.csv", "{folder}/data/a.csv"],
)
def test_links_within_the_folder_are_followed(folder: Path, text: str):
    """Links to files, to other links, relative or absolute."""
    (folder / "data" / "again.csv").symlink_to("../data/a.csv")
    (folder / "link.csv").symlink_to(text.format(folder=folder))

    assert "a\n1\n" == read(folder, "link.csv")


def test_what_kubernetes_mounts_is_read(folder: Path):
    """A mounted configuration is a link through two names that begin with dots."""
    (folder / "..2026_11").mkdir()
    (folder / "..2026_11" / "k.csv").write_text("k")
    (folder / "..data").symlink_to("..2026_11")
    (folder / "k.csv").symlink_to("..data/k.csv")

    assert "k" == read(folder, "k.csv")


@pytest.mark.parametrize(
    "file",
    [
        "../secret",
        "data/../../secret",
        "/etc/passwd",
        "/proc/self/environ",
        "data/../..",
        "..",
        "a\0b",
    ],
)
def test_paths_that_lead_out_are_refused(folder: Path, file: str):
    """Two dots and absolute paths end at the border of the folder."""
    with failing(r"leads out|zero byte", permanent=True):
        read(folder, file)


@pytest.mark.parametrize(
    "text",
    [
        "/etc/passwd",
        "../secret",
        "data/../../secret",
        "/proc/self/environ",
        "/proc/self/fd/0",
        "/proc/self/root/etc/passwd",
        "/dev/zero",
    ],
)
def test_links_that_lead_out_are_refused(folder: Path, text: str):
    """Whether the link is the file itself or a folder on the way."""
    (folder / "link.csv").symlink_to(text)
    (folder / "data" / "up").symlink_to("../..")

    for file in ("link.csv", "data/up/secret"):
        with pytest.raises(StepError, match="leads out"):
            read(folder, file)


def test_links_in_a_circle_end(folder: Path):
    """A link to itself is refused."""
    (folder / "a.csv").symlink_to("b.csv")
    (folder / "b.csv").symlink_to("a.csv")

    with pytest.raises(StepError, match="too many"):
        read(folder, "a.csv")


def test_only_regular_files_are_read(folder: Path):
    """Folders, pipes and sockets are refused, and nobody waits for a writer."""
    os.mkfifo(folder / "pipe.csv")
    with socket.socket(socket.AF_UNIX) as listening:
        here = Path.cwd()
        os.chdir(folder)  # the path of a socket must be short
        try:
            listening.bind("socket.csv")
        finally:
            os.chdir(here)

    for file in ("pipe.csv", "socket.csv", "data", ".", "data/a.csv/x"):
        with pytest.raises((StepError, OSError)) as caught:
            read(folder, file)
        assert "regular" in str(caught.value) or "continues" in str(caught.value)


@pytest.mark.parametrize("file", [".env", ".git/config", "env.csv"])
def test_hidden_files_are_refused(folder: Path, file: str):
    """A folder that is also a checkout keeps its secrets; links to them too."""
    (folder / ".env").write_text("SECRET=1")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("token")
    (folder / "env.csv").symlink_to(".env")

    with pytest.raises(StepError, match="hidden"):
        read(folder, file)


def test_data_of_ours_below_the_folder_is_refused(folder: Path):
    """The workspace has the data of other apps, the database all there is."""
    database, workspace = folder / "m.sqlite3", folder / "workspace"
    database.write_text("x")
    (workspace / "other").mkdir(parents=True)
    (workspace / "other" / "1.parquet").write_text("x")
    os.link(database, folder / "hard.csv")

    for file in ("m.sqlite3", "workspace/other/1.parquet", "hard.csv"):
        with pytest.raises(StepError, match="Minutehand's own data"):
            read(folder, file, private=(database, workspace, folder / "gone"))


def test_folder_that_became_a_link_is_refused(folder: Path, tmp_path: Path):
    """Who may write beside the folder cannot move it."""
    folder.rename(tmp_path / "moved")
    folder.symlink_to("/etc")

    with pytest.raises(StepError, match="symbolic link"):
        read(folder, "passwd")


def test_names_that_change_while_they_are_read_lead_nowhere_else(folder: Path):
    """A folder is swapped with a link to the secret again and again, in vain."""
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "a.csv").write_text("secret")
    (folder / "evil").symlink_to(outside)
    spare, stop = folder / "spare", threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (folder / "data").rename(spare)
            (folder / "evil").rename(folder / "data")
            (folder / "data").rename(folder / "evil")
            spare.rename(folder / "data")

    swapping = threading.Thread(target=swap)
    swapping.start()
    found = set()
    try:
        for _ in range(3000):
            try:
                found.add(read(folder, "data/a.csv"))
            except (StepError, OSError):
                continue
    finally:
        stop.set()
        swapping.join()

    assert found <= {"a\n1\n"}

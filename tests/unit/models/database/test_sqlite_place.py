"""Where an SQLite file may be kept; whether it can be written to is asked for real."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.database.sqlite_place import find_file_system

MOUNTS = r"""
/dev/sda1 / ext4 rw,relatime 0 0
systemd-1 /srv/data autofs rw,fd=52 0 0
files:/data /srv/data nfs4 rw,vers=4.2 0 0
/dev/sdb1 /srv/data/local ext4 rw 0 0
//files/share /media/our\040share cifs rw 0 0
files:/home /home nfs rw 0 0
""".strip()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/minutehand/minutehand.sqlite3", "ext4"),
        # what was mounted where an automount waited for whoever comes
        ("/srv/data/minutehand.sqlite3", "nfs4"),
        ("/srv/data/local/minutehand.sqlite3", "ext4"),
        ("/srv/database/minutehand.sqlite3", "ext4"),
        ("/media/our share/minutehand.sqlite3", "cifs"),
        ("/home/ann/minutehand.sqlite3", "nfs"),
    ],
)
def test_file_lies_on_what_was_mounted_last_and_deepest(path: str, kind: str):
    assert kind == find_file_system(Path(path), MOUNTS)

"""Documents as files: one for each action, and none of them overwritten unasked."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from actions.importing.origins.imported import Imported
from models.errors import ConflictError, UsageError


def write_files(
    folder: Path, entries: Iterable[Imported], *, overwrite: bool = False
) -> int:
    """
    Write the document of each of *entries* into *folder*, which is made if missing.

    Args:
        folder: Other files in it are left alone.
        entries: Those without a document are left out.
        overwrite: Whether files of the same names are replaced.

    Returns:
        How many were written.

    Raises:
        ConflictError: If there are files of the same names; nothing was written.
        UsageError: If *folder* cannot be written to; files from before are whole.
    """
    texts = {
        folder / each.file: _write(each)
        for each in entries
        if each.file is not None and each.document is not None
    }
    taken = [path.name for path in texts if os.path.lexists(path)]
    if taken and not overwrite:
        named = ", ".join(taken[:5]) + (", ..." if len(taken) > 5 else "")
        msg = (
            f"{folder} already has {named}. Nothing was written. Choose another folder,"
            " or add --overwrite to replace them."
        )
        raise ConflictError(msg)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            _replace(path, text)
    except OSError as error:
        msg = f"{error.filename or folder}: {error.strerror or error}"
        raise UsageError(msg) from None
    return len(texts)


def _write(entry: Imported) -> str:
    return json.dumps(entry.document, indent=4, ensure_ascii=False) + "\n"


def _replace(path: Path, text: str) -> None:
    """Write *path* whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)

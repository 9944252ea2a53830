"""JSON Merge Patch (RFC 7396): change some members of a document. Pure."""

from __future__ import annotations

from collections.abc import Mapping


def apply_merge_patch(target: object, patch: object) -> object:
    """
    Return *target* with *patch* merged in; neither is changed.

    Members of *patch* replace those of *target*; null removes one; objects are merged
    member by member; anything else, a list too, replaces as a whole.

    Args:
        target: Decoded JSON.
        patch: Decoded JSON, whose depth the door has checked.

    >>> apply_merge_patch({"a": 1, "b": {"c": 2, "d": 3}}, {"a": None, "b": {"c": 4}})
    {'b': {'c': 4, 'd': 3}}
    """
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = apply_merge_patch(merged.get(key), value)
    return merged

"""What differs between two documents, and what a merge patch makes of one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.door.differences import DifferenceKind, apply_merge_patch, find_differences
from tests.unit.models.json_values import nest

KEYS = st.sampled_from("ab/~")
FEW = st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=2)
DOCUMENTS = st.dictionaries(KEYS, nest(FEW, KEYS), max_size=3)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({}, {"a": 1}, ("/a", DifferenceKind.ADDED, None, 1)),
        ({"a": 1}, {}, ("/a", DifferenceKind.REMOVED, 1, None)),
        (
            {"a": {"b/c": 1}},
            {"a": {"b/c": 2}},
            ("/a/b~1c", DifferenceKind.CHANGED, 1, 2),
        ),
        ({"a": [1, 2]}, {"a": [1]}, ("/a/1", DifferenceKind.REMOVED, 2, None)),
        ({"a": [1]}, {"a": {"b": 1}}, ("/a", DifferenceKind.CHANGED, [1], {"b": 1})),
        ({"a": 1}, {"a": True}, ("/a", DifferenceKind.CHANGED, 1, True)),
        ({"a": None}, {"a": 1}, ("/a", DifferenceKind.CHANGED, None, 1)),
    ],
)
def test_each_difference_has_its_pointer(old: Any, new: Any, expected: Any):
    """The smallest value that differs is named, with what it was and is."""
    (found,) = find_differences(old, new)

    assert expected == (found.pointer, found.kind, found.before, found.after)


@given(DOCUMENTS, DOCUMENTS)
def test_only_equal_documents_have_no_difference(old: Any, new: Any):
    """Nothing that differs is missed, and nothing is made up."""
    are_equal = repr(sort_keys(old)) == repr(sort_keys(new))

    assert are_equal is not bool(find_differences(old, new))


def sort_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: sort_keys(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [sort_keys(each) for each in value]
    return value


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        # RFC 7396, appendix A
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_does_what_its_standard_says(
    target: Any, patch: Any, expected: Any
):
    """The examples of RFC 7396."""
    assert expected == apply_merge_patch(target, patch)

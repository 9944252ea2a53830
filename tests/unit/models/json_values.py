"""JSON by chance."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

_TEXTS = st.text()

#: What JSON can hold, but for lists and objects.
SCALARS: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXTS
)


def nest(
    leaves: st.SearchStrategy[Any], keys: st.SearchStrategy[str] = _TEXTS
) -> st.SearchStrategy[Any]:
    """Give *leaves*, and lists and objects of them within each other."""
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=6)
        ),
        max_leaves=12,
    )

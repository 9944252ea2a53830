"""The search: an action, an operation or a small app by a few letters."""

"""
Small apps: what belongs to them, and what is going on in them.

small_apps has them with their numbers, needs_look what in each needs a look, data what
is staged and live, and what the last refresh and publish touched.
"""

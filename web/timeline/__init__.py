"""
Actions side by side on a line of time.

window is what one looks at, lanes what one action did and will do in it, and fetching
reads which actions ran, and where their runs collide.
"""

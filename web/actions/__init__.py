"""
The pages of actions: routes has that of all, one_action that of one.

fetch_counts counts them, and has those of an export; fetch_days has what became of one
day by day, and fetch_preview when it runs next. revisions compares its documents and
restores one. words is what both pages say.
"""

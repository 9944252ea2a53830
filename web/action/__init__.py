"""
The page of one action.

routes shows it from its parts, and runs, pauses, resumes and deletes it; fetch_days has
what became of it day by day, and fetch_preview when it runs next. revisions compares
its documents and restores one.
"""

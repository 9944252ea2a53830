"""
The page of one action.

routes shows it from its parts; fetch_days has what became of it day by day, and
fetch_preview when it runs next. acts runs, pauses, resumes and deletes it; revisions
compares its documents and restores one.
"""

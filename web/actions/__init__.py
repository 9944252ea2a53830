"""
The page of all actions.

fetch_counts counts them by what one filters by; fetch_documents has those of an export.
"""

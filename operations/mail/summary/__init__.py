"""
The executive summary: what the live data of a small app say, for people.

content has the facts, column_roles decides which numbers may be added up, former
compares with the last summary. wording puts all of it into a reader's language, and
as_text, as_html and as_pdf only lay it out.
"""

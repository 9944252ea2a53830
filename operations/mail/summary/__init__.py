"""
The executive summary: what the live data of a small app say, for people.

content.py has the facts: which numbers may be added up, and how they differ from those
of the last summary. wording.py puts them into a reader's language; as_mail.py and
as_pdf.py only lay them out.
"""

"""
Store the actions that admins post, and change them; each change is a new revision.

post.py stores what models.door has read, and revisions.py writes each change; edit.py
and apply.py are above them, for one document as somebody wrote it and for a folder of
documents. Before anything is stored, references.py finds what the small app lacks,
refusals.py and bounds.py say why a post is refused, and doubts.py what may be a
mistake. changes.py says how the runs of two rules differ. The faces come in, and so do
the modules of actions/ that keep actions of their own.
"""

"""
Store the actions that admins post, and change them; each change is a new revision.

post is the way in. references knows what the small app lacks, revisions how a change is
written, effective_from when a rule takes effect; refusals says which names are taken,
and why a post is refused, doubts what may be a mistake; foretell posts and says what
comes of it, changes how the runs of two rules differ. The faces call it with what
models.door has read; so do the modules of actions/ that keep actions of their own.
"""

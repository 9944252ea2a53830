"""
Store what admins post, and change it: each change is a new revision.

post is the way in; it asks naming which names are taken, references what the small app
lacks, revisions how a change is written, effective_from from when on a rule counts.
foretell does a post and tells what comes of it, changes how two schedules differ. The
faces come in, with what models.door has read, and those in this house who keep actions
of their own (maintenance_action, notice_action, tenants/).
"""

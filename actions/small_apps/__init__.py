"""
Make a small app what its document says: users, domains, templates, holidays.

apply is the way in, for whoever has read an app.json through models.door.
"""

"""
Make a small app what its document says: users, domains, templates, holidays.

apply is the way in, with what models.door has read from an app.json.
"""

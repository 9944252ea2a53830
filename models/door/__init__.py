"""
The door: everything that people write comes in here, or is refused with a hint.

documents reads scheduled actions, small apps and events; json_text sees to it that they
are JSON at all. Faces come in with text, and get models back or an error that says
where, what, and what to write instead.
"""

"""
The door: everything that people write comes in here, or is refused with a hint.

documents reads scheduled actions, small apps and events; json_text makes sure that they
are JSON at all. Faces pass in text, and get back models, or an error that says where
the problem is, what it is, and what to write instead.
"""

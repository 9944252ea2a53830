"""
What every face shows: status, findings, figures and metrics, as plain data.

Functions take a connection and return dataclasses, whose ``as_json`` is the documented
object; json_form writes it. A face only formats them. operations, actions and apps each
have one kind of thing with all that is known about it; status has the installation at
this moment, and doctor/ looks for problems. explaining answers why, auditing compares
with the rules, previews shows when an action would run, and reasons says what a state
or a reason means. access/ is about those who ask over HTTP.

The faces and the scheduler import this room; only access/ in it writes.
"""

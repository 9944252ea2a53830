"""
What the faces over HTTP stand on: who asks, how often, and how long anything may take.

edge and server take requests from strangers; services is the world that they work with.
guarding lets callers in, by signing_in, limits and parameters, and hands routes a
context; apart answers those with large bodies in a process of their own. cursors and
refusals are what HTTP says of lists, versions and errors. access/ has keys, sessions
and roles, which commands manage, too. stream tells what happens. It knows neither JSON
nor pages: api/ and web/ do.
"""

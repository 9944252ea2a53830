"""
The pages of operations: routes has the list, one_operation what became of one.

list_query is what the list is asked, which a change of many is asked, too, and
fetch_facets counts what fits. fetch_account has the attempts of one, which gantt draws.
"""

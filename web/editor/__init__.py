"""
The page on which one writes an action.

draft is what somebody writes, and what is said of it; builders are the fields that put
parts into the text. An empty page offers starters.
"""

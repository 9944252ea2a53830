"""
The geometry of pictures: numbers and SVG paths, without a style. Pure.

Templates draw them: colours and dashes are classes of the style sheet.
"""

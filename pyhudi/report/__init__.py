"""Reports of a table's state as HTML pages: facts, charts, pages.

`collect` reads a table once into `facts`; `page` is a pure function of these facts.
"""

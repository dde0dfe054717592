"""Changes of a table's version: plan, properties and conversion, and the commands that run them.

`plan` between the versions 6, 8 and 9, `old_versions` from 0 to 5 to version 6.
"""

"""Formats of messages: bytes of a topic become rows.

A format is given the values of many messages at once and returns columns; a message that it cannot
decode is reported with its reason, and its neighbours are decoded.
"""

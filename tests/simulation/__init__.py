"""The real library under one seed: actors, a store that misbehaves, and a virtual clock.

scheduler   threads that hold a baton, the virtual clock, and what replaces time and chance
store       an object store and a disk in memory, with faults drawn by the seed, and the trace
actors      what the processes do, and what they were answered
checks      what must hold after every commit, after each step and at the end
run         one seed from its plan to its verdict; shrinking
__main__    `python -m tests.simulation --seed N [--trace]`

A seed decides everything: the same seed gives the same trace.
"""

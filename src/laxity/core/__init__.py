"""Cameo's scheduling as a pure library: no I/O, no threads, no clock.

Time is float seconds, passed in. The pieces, from the inside out: `windows` and `progress` (when
will a result be due), `costs`, `policies` (compile a situation into a `rules.PriorityRule`),
`converter` (Algorithm 1), `queue` (two levels), `scheduler` (events in, decisions out).
"""

"""The query level: changing running dataflows through the data plane, after Chi.

Pure: nothing here does input or output but the durable store. `docs/control.md` explains it.
"""

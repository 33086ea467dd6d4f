"""Operating-system scheduling of streaming queries (Lachesis), decoupled from any engine.

Drivers turn an engine's public run-time information into entities and raw metrics; the metric
provider derives what policies ask for; policies rank operators; translators turn ranks into nice
values, cgroups or real-time priorities. `loop.HostLoop` joins them (the paper's Algorithm 1).

Everything that touches the kernel goes through `kernel.Kernel`, everything changed is written to
a `journal.Journal` first, so that it can be put back after any end, orderly or not.
"""

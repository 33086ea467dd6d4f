"""Neptune's workloads (§5.2) as Spark queries: heart beats found in electrocardiograms, and the
extension of the chest. The signals are generated, so that it is known what is to be found."""

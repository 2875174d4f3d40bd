"""`dispatcher top`: the cluster, live."""

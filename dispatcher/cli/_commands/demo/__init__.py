"""`dispatcher demo`: several processes and one datastore, without and with a shared limit."""

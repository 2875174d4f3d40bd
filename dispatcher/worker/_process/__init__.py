"""Workers as processes: signals, probes, and a supervisor for several."""

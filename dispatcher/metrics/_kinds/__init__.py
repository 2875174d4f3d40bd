"""The parts that read each kind of thing."""

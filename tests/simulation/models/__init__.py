"""Small models of parts of the design, in virtual time, for what has to be known before building."""

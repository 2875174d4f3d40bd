"""Small models of parts of the design, in virtual time: what has to be known before it is built."""

"""One chart each, as SVG. Pure."""

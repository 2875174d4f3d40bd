"""The charts, as SVG. Pure."""

"""Fuzz targets: whatever bytes or text come from outside, what reads them refuses them with the
documented error or makes something of them that holds."""

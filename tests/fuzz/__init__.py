"""Fuzz targets: code that reads bytes or text from outside refuses them with the documented error,
or makes a consistent object of them."""

"""How scripts run on the server, and how their answers are read."""

"""How scripts run on the server, and how their replies are decoded."""

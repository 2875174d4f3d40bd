"""What everything here that uses Redis needs of it: URLs, clients, scripts, errors in words."""

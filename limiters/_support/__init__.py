"""What several modules need and users do not: checks of arguments."""

"""Parts that several modules need and users do not, such as checks of arguments."""

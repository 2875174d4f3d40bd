"""The command line: parses options, runs commands, prints results."""

"""Read the messages of a topic without changing anything."""

"""What each kind of thing shows."""

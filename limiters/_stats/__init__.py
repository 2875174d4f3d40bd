"""What a limiter has, has spent and has done, as plain values."""

"""Training parameters."""

"""Data that comes in: frames, relations and files."""

"""Types of columns, and features."""

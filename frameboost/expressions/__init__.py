"""Scalar SQL expressions, SQL text, and what makes sums and draws equal in every engine."""

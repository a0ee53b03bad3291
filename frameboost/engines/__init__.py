"""Engines: the places where rows live and sums over them are taken."""

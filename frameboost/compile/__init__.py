"""Compilers: from trees to the forms that score rows."""

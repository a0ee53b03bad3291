"""Checks of arguments and files, and how their messages read."""

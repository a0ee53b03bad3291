"""What pytest does not collect here."""

collect_ignore = ["site/docstrings.py"]  # imports griffe, which only the extra `docs` brings

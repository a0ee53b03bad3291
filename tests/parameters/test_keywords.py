"""Editors know the keywords that the functions take."""

from tests.support import keywords


def test_the_file_is_what_the_signatures_say():
    assert keywords.FILE.read_text(encoding="utf-8") == keywords.text(), "python -m tests.support.keywords writes it"

"""``frameboost warmup`` compiles what later fits need."""

import pytest

from frameboost.cli import main, warmup


@pytest.mark.slow
def test_kernels_are_compiled_once(monkeypatch, capsys):
    monkeypatch.setattr(warmup, "_MANY", 10_000)  # not to compile what no other test needs
    for _ in range(2):
        assert main(["warmup", "explain"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines] == ["explain", "kernels"]
    assert lines[0].split()[1] == "0"


def test_an_unknown_kind_is_named(capsys):
    assert main(["warmup", "numbers", "nonsense"]) == 1
    assert capsys.readouterr().err.startswith("frameboost: kind 'nonsense' is not one of 'numbers', 'strings', ")

"""The modules of the package and their files."""

from pathlib import Path

__all__ = ["MODULES", "PACKAGE", "ROOT"]

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "frameboost"
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}

"""Build the site: ``python -m docs.site``, with the packages of the extra ``docs``.

The pages of ``docs/`` are written for GitHub. `docs.site.staging` copies them to ``build/docs`` in the form that
Zensical takes, Zensical makes the site of them in strict mode, and `docs.site.built_links` follows every link in it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from docs.site.built_links import lost_links
from docs.site.staging import stage

__all__ = ["main"]

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Build ``build/site`` and return 0, or 1 if a link in it leads nowhere."""
    staged, built = ROOT / "build" / "docs", ROOT / "build" / "site"
    shutil.rmtree(staged, ignore_errors=True)
    stage(ROOT, staged)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    # `zensical` has no settings for where it writes but the project's own, so the result is moved.
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    if subprocess.run(command, cwd=staged, env=environment, check=False).returncode:
        return 1
    shutil.rmtree(built, ignore_errors=True)
    shutil.move(staged / "site", built)
    # What the search reads where the site is opened from a folder, in which scripts can't fetch files.
    (built / "search.js").write_text(
        f"var __index = {(built / 'search.json').read_text(encoding='utf-8')};\n", encoding="utf-8"
    )
    lost = lost_links(built)
    for line in lost:
        print(line, file=sys.stderr)
    print(f"{built / 'index.html'}: {len(list(built.rglob('*.html')))} pages, {len(lost)} links that lead nowhere")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())

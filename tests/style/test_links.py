"""Relative links of every Markdown file of the checkout lead to files and headings; those of the installed manuals do so
within what is installed (tests/integration/test_install.sh asks the installed tree itself)."""

import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))

import check_links  # noqa: E402

INSTALLED = ["README.md", "LICENSE", "CHANGELOG.md", "input", "jobs", "postprocess"]  # as in CMakeLists.txt


def test_of_the_test():
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        (root / "sub").mkdir()
        (root / "a.md").write_text("# One `two`: three\n[x](sub/b.md#first) [y](missing.md) [z](sub/b.md#none) "
                                   "[u](#one-two-three) `[v](code.md)`\n```\n[w](fence.md)\n```\n[q](https://x.org/n)\n")
        (root / "sub/b.md").write_text("# First\n[out](../../elsewhere) [up](../a.md)\n[r]: ../none.md\n")
        found = [p for path in root.rglob("*.md") for p in check_links.problems_of(root, path)]
        assert sorted(p.split(": ", 1)[1] for p in found) == [
            "(../../elsewhere) leads nowhere", "(../none.md) leads nowhere", "(missing.md) leads nowhere",
            "(sub/b.md#none): b.md has no heading of that name"], found


test_of_the_test()
listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True, text=True)
files = [ROOT / name for name in listed.stdout.split() if (ROOT / name).exists()] if listed.returncode == 0 else list(ROOT.glob("*.md"))
problems = check_links.check(ROOT, files)
with tempfile.TemporaryDirectory() as name:
    copy = pathlib.Path(name)
    for item in INSTALLED:
        (shutil.copytree if (ROOT / item).is_dir() else shutil.copy)(ROOT / item, copy / item)
    print("as installed:")
    problems += check_links.check(copy, list(copy.rglob("*.md")))
sys.exit(1 if problems else 0)

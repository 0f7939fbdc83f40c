"""Every file that src/README.md names exists: the guide for new code must not lead to files that were moved."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOP = ("src/", "include/", "tests/", "input/", "jobs/", "postprocess/")
SUFFIXES = (".hpp", ".cpp", ".py", ".md", ".toml", ".txt")


def names_in(text):
    """Paths in back quotes, without those that stand for many: MODULE, NAME, KIND."""
    for name in re.findall(r"`([\w./-]+)`", text):
        if "/" in name and "NAME" not in name and "MODULE" not in name:
            if name.startswith(TOP) or name.endswith(SUFFIXES):
                yield name


def missing(text, root):
    """Headers may be named as they are included, without include/bert_hpc/ or src/."""
    tops = (root, root / "include/bert_hpc", root / "src")
    return [name for name in names_in(text) if not any((top / name).exists() for top in tops)]


assert list(names_in("`src/a.cpp` `x/NAME.cpp` `core/b.hpp` `word` `a → b`")) == ["src/a.cpp", "core/b.hpp"]
text = (ROOT / "src/README.md").read_text()
names = list(names_in(text))
assert len(names) >= 10, "src/README.md names hardly any file"
lost = missing(text, ROOT)
print("\n".join(f"src/README.md names {name}, which does not exist" for name in lost) or f"{len(names)} names, all of files")
sys.exit(1 if lost else 0)

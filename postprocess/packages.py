"""The packages that postprocess/ needs. Imported before any of them: if one is missing, prints a line that says so and
names a Python that has them."""

import importlib
import os
import pathlib
import sys

NEEDED = ("h5py", "matplotlib", "numpy")


def missing():
    found = []
    for name in NEEDED:
        try:
            importlib.import_module(name)
        except ImportError:
            found.append(name)
    return found


def other_python():
    """The Python that jobs/common.sh selects: $BERT_HPC_PYTHON, or the environment made by setup.sh."""
    cache = os.environ.get("BERT_HPC_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "bert_hpc")
    return os.environ.get("BERT_HPC_PYTHON") or os.path.join(cache, "venv/bin/python")


def advice(absent):
    """One line about the packages that this Python lacks."""
    script, python = pathlib.Path(sys.argv[0]).name, other_python()
    there = pathlib.Path(python).expanduser()
    if there.is_file() and there.absolute() != pathlib.Path(sys.executable).absolute():
        way = f"run it with {python}, which has them"
    else:
        way = f"run it with a Python that has them, as {python} after jobs/setup.sh (BERT_HPC_PYTHON names another)"
    return f"{script}: error: {sys.executable} lacks {', '.join(absent)}; {way}"


def require():
    absent = missing()
    if absent:
        print(advice(absent), file=sys.stderr)
        sys.exit(2)


require()

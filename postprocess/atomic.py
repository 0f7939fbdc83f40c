"""Atomic text files: a file gets its name when it is complete, so a reader never sees half of one."""

import contextlib
import os


@contextlib.contextmanager
def written(path):
    """A text file in UTF-8, renamed to `path` at the end, and removed if writing fails."""
    beside = path.with_name(path.name + ".partial")
    try:
        with open(beside, "w", newline="", encoding="utf-8") as file:
            yield file
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)

"""Text files that take their name when they are complete: a reader never sees half of one."""

import contextlib
import os


@contextlib.contextmanager
def written(path):
    """A text file in UTF-8 that becomes `path` at the end, and goes where writing fails."""
    beside = path.with_name(path.name + ".partial")
    try:
        with open(beside, "w", newline="", encoding="utf-8") as file:
            yield file
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)

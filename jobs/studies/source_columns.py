"""The columns of a study's table of texts."""

import pathlib

from command_line import StudyError  # first: it makes the modules of postprocess/ visible
import source_rows


def table_of(path, columns):
    """The CSV file that --data names, or the only one of its folder, which has the columns."""
    path = pathlib.Path(path)
    if path.is_dir():
        found = sorted(path.glob("*.csv"))
        if len(found) != 1:
            raise StudyError(f"--data {path}: the folder has {len(found) or 'no'} CSV files; name one file")
        path = found[0]
    try:
        names = next(source_rows.rows_of(path, source_rows.Form("csv")))
    except (OSError, StopIteration, ValueError) as problem:
        raise StudyError(f"--data {path}: it cannot be read: {problem}") from None
    if absent := [column for column in columns if column not in names]:
        raise StudyError(
            f"--data {path}: there is no column {', '.join(absent)};"
            f" the file has {', '.join(map(str, names)) or 'none'}"
        )
    return path

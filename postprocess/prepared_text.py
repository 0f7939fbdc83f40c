"""The texts that a run's shards were made of: prep.toml beside the shards names the files that bert_hpc_prep read."""

import json
import pathlib
import sys

import predictions
import rundata
import source_rows
import source_text


class Missing(Exception):
    """What is missing, in a sentence without its full stop."""


def settings_beside(shard):
    """{"table.key": value} of the prep.toml beside a shard."""
    path = pathlib.Path(shard).parent / "prep.toml"
    try:
        return {key: json.loads(value) for key, value in rundata.settings_of(path.read_text(encoding="utf-8")).items()}
    except (OSError, ValueError):
        raise Missing(f"there is no readable '{path}', which names the files of the texts") from None


def warn_of_other_files(run, given):
    """Says on standard error if bert_hpc_prep read files of other names than `given`: rows are found by their number alone."""
    try:
        settings = settings_beside(predictions.shard_files(run)[0])
    except (Missing, IndexError):
        return
    read = [name for kind in ("files", "validation_files", "test_files") for name in settings.get(f"source.{kind}", [])]
    if [pathlib.Path(name).name for name in read] != [pathlib.Path(name).name for name in given]:
        print(f"warning: --text names {', '.join(given)}, but bert_hpc_prep read {', '.join(read)} for '{run.path}': are these the same "
              "rows?", file=sys.stderr)


def found_file(name, shards, output):
    """The path of a file that bert_hpc_prep read; relative names begin in the folder where it was started, or in this one."""
    here, own = shards.resolve().parts, pathlib.PurePath(output).parts
    started_in = [pathlib.Path(*here[: -len(own)])] if own and here[-len(own) :] == own else []
    for folder in [*started_in, pathlib.Path()]:
        if (folder / name).is_file():
            return folder / name
    raise Missing(f"there is no '{name}', which '{shards / 'prep.toml'}' names")


def form_of(source):
    """How the files are written that the table [source] describes."""
    kind = source["format"]
    unit = "" if kind != "text" or source["unit"] == "line" else f" by {source['unit']}s"
    if unit or kind not in source_rows.READERS:
        raise Missing(f"files of format \"{kind}\"{unit} are not looked up; name files with the texts with --text")
    usual = source_rows.FORMS.get(f".{kind}", source_rows.Form(kind))
    return usual._replace(delimiter=source.get("delimiter", usual.delimiter), quotes=source.get("quotes", usual.quotes),
                          header=source["header"], columns=source["columns"], encoding=source["encoding"])


def texts_of(run, rows):
    """The names of the columns of the first and of the second text, and {row: its cells in them}: texts, then the label where the files
    have one that can be compared. Raises Missing."""
    shards = predictions.shard_files(run)
    if not shards:
        raise Missing("the shards that the run's input names are not there, and prep.toml lies beside them")
    settings = settings_beside(shards[0])
    source = {key.removeprefix("source."): value for key, value in settings.items() if key.startswith("source.")}
    try:
        form = form_of(source)
        names = [*source["files"], *source["validation_files"], *source["test_files"]]
        files = [found_file(name, pathlib.Path(shards[0]).parent, settings["output.directory"]) for name in names]
        firsts, seconds = (["text"], []) if form.form == "text" else (source["text"], source["text_pair"])
        # Questions have ids, which are compared as labels are.
        label = source["id"] if settings["task.name"] == "question_answering" else source["label"]
        labels = [label] if label and form.form not in source_rows.WITHOUT_LABELS else []
    except KeyError as absent:
        raise Missing(f"prep.toml beside the shards has no [source] {absent.args[0]}") from None
    try:
        return firsts, seconds, source_text.texts_of(files, [*firsts, *seconds, *labels], set(rows), form)
    except rundata.ReportError as problem:
        raise Missing(f"the texts cannot be read: {problem}".rstrip(".")) from None

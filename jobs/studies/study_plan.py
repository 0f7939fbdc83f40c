"""The plan of a study: inputs, the rows of its table, and its columns."""

import json
import re
from dataclasses import dataclass, field

SPLITS = ("train", "validation", "test")


@dataclass
class Variant:
    """A row of the table: a run for each seed."""

    name: str  # in file names
    label: str
    settings: dict = field(default_factory=dict)  # keys of bert_hpc, beside the variant's input
    ranks: int = 1
    published: dict = field(default_factory=dict)  # measure -> the paper's number
    note: str = ""  # what differs from the paper
    killed: bool = False  # its ranks are killed after the first checkpoint, and it resumes
    input: str = "train"  # key of Plan.inputs
    needs: tuple = ()  # names of variants with one run, which this one reads
    once: bool = False  # one run, whatever the number of seeds
    hidden: bool = False  # no row of the table, unless it fails


@dataclass
class Measure:
    """A column of the table. of(run) returns a number, NaN if the run has none."""

    key: str
    title: str
    of: object
    digits: int = 3
    change: bool = False  # also in per cent of the baseline's


@dataclass
class Plan:
    title: str
    preps: dict  # folder of shards -> the input of bert_hpc_prep as tables; the first is "shards"
    inputs: dict  # name -> an input of bert_hpc as tables, which reads "shards" and has --model's model by default
    variants: list
    measures: list
    sources: list  # files that bert_hpc_prep reads
    baseline: str = ""  # the variant that changes are relative to
    shrunk: list = field(default_factory=list)  # sentences: what differs from the paper's setting
    headline: str = ""  # the measure of overview.csv; default: the first
    relative: bool = False  # overview.csv divides the measure by the baseline's
    write_sources: object = None  # write_sources() makes those of `sources` that are not the user's
    others: object = None  # others(study) returns rows without a run: [(label, {measure: value}, note)]
    tables: object = None  # tables(study, runs) returns further tables: [(name of the file, title, header, rows)]
    pictures: object = None  # pictures(study, runs) returns [(name, figure)]
    compared: object = None  # compared(study, runs) returns the runs that the usual pictures show; None: all
    learned: object = None  # learned(rows) returns the sentences that say what did not learn

    def stage(self, variant):
        """0 for a variant that needs no other run, else 1 more than that of the last one that it needs."""
        return 1 + max((self.stage(self.variant(name)) for name in variant.needs), default=-1)

    def variant(self, name):
        return next(variant for variant in self.variants if variant.name == name)

    def matching(self, pattern):
        """The variants with such names, and all that they need."""
        kept = {variant.name for variant in self.variants if re.search(pattern, variant.name) and not variant.hidden}
        while more := {name for variant in self.variants if variant.name in kept for name in variant.needs} - kept:
            kept |= more
        return [variant for variant in self.variants if variant.name in kept]


def toml_value(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(toml_value(item) for item in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def toml_text(tables):
    """{table: {key: value}} as TOML."""
    return "\n".join(
        f"[{table}]\n" + "".join(f"{key} = {toml_value(value)}\n" for key, value in keys.items())
        for table, keys in tables.items()
    )


def shards_of(folder, splits=SPLITS):
    """The table [data] of a folder of shards."""
    return {split: [str(folder / f"{split}-*.h5")] for split in splits}


def write_source(path, text):
    """Writes a file for bert_hpc_prep, unless it has this text: its time decides whether shards are made again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")

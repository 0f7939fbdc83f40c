"""Groups runs of one input with several seeds, and variants of that input, and names the variants."""

import os

from rundata import settings

# Settings that may differ between runs of one variant: seeds, folders, the job's remaining time, logging and kept
# files.
OF_A_RUN = ("run.", "log.", "checkpoint.", "debug.")
# Layouts never change the mathematics, only the speed.
OF_A_LAYOUT = ("parallel.", "batch.micro")


def scientific(value):
    mantissa, _, exponent = f"{value:.6e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def as_number(text):
    try:
        return float(text)
    except ValueError:
        return None


def in_one_notation(texts):
    """{text: the same number}, all in one notation: 0.001 and 1e-05 are hard to compare."""
    numbers = {text: as_number(text) for text in texts if text is not None}
    known = [value for value in numbers.values() if value is not None]
    write = scientific if any("e" in f"{value:.12g}" for value in known) else "{:.12g}".format
    return {text: text if value is None else write(value) for text, value in numbers.items()}


def names_of(inputs):
    """For each input, the settings in which it differs from the others."""
    keys = sorted({key for own in inputs for key in own})
    differing = [key for key in keys if len({own.get(key) for own in inputs}) > 1]
    written = {key: in_one_notation({own.get(key) for own in inputs}) for key in differing}
    return [", ".join(f"{key} = {written[key].get(own.get(key), 'not set')}" for key in differing) for own in inputs]


def identity(run, left_out=OF_A_RUN + OF_A_LAYOUT):
    """The settings that determine a run's numbers, without the seed."""
    return {key: value for key, value in settings(run).items() if not key.startswith(left_out)}


def described(run):
    """The same with the layout, because pictures also show speeds."""
    return identity(run, OF_A_RUN) | ({"ranks": str(run.rank_count)} if run.rank_count else {})


def grouped(runs):
    """Groups the runs: those of one variant that differ only in their seeds form one group, any other is alone."""
    found = {}
    for run in runs:
        key = tuple(sorted(described(run).items())) if settings(run).get("run.seed") else run.name
        found.setdefault(key, []).append(run)
    groups = []
    for members in found.values():
        seeds = {settings(run).get("run.seed") for run in members}
        groups += [members] if len(seeds) == len(members) else [[run] for run in members]
    return groups


def labels_of(groups, widest=60):
    """A group's name: its run's, or its distinct settings and the number of its seeds."""
    labels = []
    for name, members in zip(names_of([described(group[0]) for group in groups]), groups):
        if len(name) > widest:
            name = os.path.commonprefix([run.name for run in members]).rstrip("-_/ .") or name
        seeds = f"{len(members)} seeds"
        labels.append(members[0].name if len(members) == 1 else f"{name}, {seeds}" if name else seeds)
    return labels

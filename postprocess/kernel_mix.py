"""The profile of a run ([log] profile = true): its calls as plain rows, and their groups, by what they compute."""

import collections
import math

PREFIX = "bert_hpc::ops::"
# A group takes the kernels whose name has one of these words; the first that fits.
WORDS = (("attention", ("attention",)),
         ("matrix products", ("gemm", "product")),
         ("layer norms", ("layer_norm",)),
         ("embeddings", ("embedding", "add_position_and_type", "mark_rows", "mark_first_rows")),
         ("losses", ("entropy", "_error", "concordance", "class_shard", "arg_max")),
         ("activations, biases, dropout", ("gelu", "relu", "tanh", "bias", "dropout", "column_sums", "partial_sums")))
KINDS = {"products": "matrix products", "collectives": "communication", "copies": "copies and fills", "fills": "copies and fills"}
OPTIMIZER, OTHER = "optimizer", "other kernels"
# In tables and pictures, from the costly to the small.
GROUPS = ("matrix products", "attention", "layer norms", "activations, biases, dropout", "embeddings", "losses", OPTIMIZER,
          "communication", "copies and fills", OTHER)
OUTSIDE = "outside of calls"  # of the steps' time

Call = collections.namedtuple("Call", "section kind name calls seconds_min seconds seconds_max flops bytes group")


def group_of(section, kind, name):
    if kind in KINDS:
        return KINDS[kind]
    if section == "optimizer" or "squared_norm" in name or "sum_and_clip" in name:
        return OPTIMIZER
    return next((group for group, words in WORDS if any(word in name for word in words)), OTHER)


def calls_of(run):
    """The calls whose time was measured, those that took longest first; none of a run without a profile."""
    columns = run.profile
    if not columns:
        return []
    rows = zip(*(columns[name] for name in ("section", "kind", "name", "calls", "seconds_min", "seconds_avg", "seconds_max",
                                            "flops", "bytes")))
    found = []
    for section, kind, name, *numbers in rows:
        short = str(name).removeprefix(PREFIX)
        calls, *others = numbers
        found.append(Call(str(section), str(kind), short, int(calls), *map(float, others), group_of(section, kind, short)))
    return sorted((call for call in found if math.isfinite(call.seconds)), key=lambda call: -call.seconds)


def rate(run, call, quantity):
    """10⁹ operations ("flops") or bytes per second of one rank; NaN if they are not known."""
    work = getattr(call, quantity)
    return 1e-9 * work / run.profile_facts["ranks"] / call.seconds if work > 0 and call.seconds > 0 else math.nan


def seconds_by_group(run):
    """{group: seconds of a rank}, in the order of GROUPS, and last the time outside of calls."""
    sums = dict.fromkeys(GROUPS, 0.0)
    for call in calls_of(run):
        sums[call.group] += call.seconds
    found = {group: seconds for group, seconds in sums.items() if seconds > 0}
    found[OUTSIDE] = max(0.0, run.profile_facts["seconds"] - sum(found.values()))
    return found


def steps_per_second(run):
    return run.profile_facts["steps"] / run.profile_facts["seconds"]


def window(run):
    """"steps 3–22"."""
    first, steps = int(run.profile_facts["first_step"]), int(run.profile_facts["steps"])
    return f"step {first:,}" if steps == 1 else f"steps {first:,}–{first + steps - 1:,}"


# --- Tables.


def shown(value, digits=2):
    return f"{value:.{digits}f}" if math.isfinite(value) else "–"


def call_table(runs):
    """One row per kind of call, of all runs in sequence."""
    header = ["run", "call", "section", "group", "calls", "seconds (min)", "seconds (mean)", "seconds (max)", "% of time", "GFLOP/s",
              "GB/s", "% of peak"]
    rows = []
    for run in runs:
        for call in calls_of(run):
            flops = rate(run, call, "flops")
            peak = run.profile_facts.get("peak_gflops", math.nan)
            rows.append([run.name, call.name, call.section or "between sections", call.group, call.calls,
                         *(f"{value:.6f}" for value in (call.seconds_min, call.seconds, call.seconds_max)),
                         shown(100 * call.seconds / run.profile_facts["seconds"], 1), shown(flops), shown(rate(run, call, "bytes")),
                         shown(100 * flops / peak, 1)])
    return header, rows


def group_table(runs):
    """One row per group with milliseconds of a step and share of each run; then device seconds, steps and steps/s."""
    runs = [run for run in runs if run.profile]
    header = ["", *(f"{run.name}: {what}" for run in runs for what in ("ms/step", "%"))]
    if not runs:
        return header, []
    found = [seconds_by_group(run) for run in runs]
    rows = []
    for group in (*GROUPS, OUTSIDE):
        if not any(group in sums for sums in found):
            continue
        cells = []
        for run, sums in zip(runs, found):
            seconds = sums.get(group, 0.0)
            cells += [shown(1e3 * seconds / run.profile_facts["steps"], 3), shown(100 * seconds / run.profile_facts["seconds"], 1)]
        rows.append([group, *cells])

    def line(name, *values):
        rows.append([name, *(cell for value in values for cell in (value, ""))])

    line("device seconds", *(shown(sum(sums.values()) - sums[OUTSIDE], 4) for sums in found))
    line("seconds of the steps", *(shown(run.profile_facts["seconds"], 4) for run in runs))
    line("steps", *(str(int(run.profile_facts["steps"])) for run in runs))
    line("steps/s", *(shown(steps_per_second(run), 3) for run in runs))
    line("device, ranks", *(f"{run.profile_facts['device']}, {int(run.profile_facts['ranks'])}" for run in runs))
    return header, rows

"""The timeline of a training step: what each rank computes and when it waits. Simulated and measured steps are drawn
one above the other on a common time axis.

  plot_timeline.py RUN              trace.json (measured) and trace_simulated.json of a run with log.trace = true
  plot_timeline.py FILE...          any such files

From a trace with several steps, the one of median duration is drawn (--step N selects another)."""

import argparse
import json
import pathlib
import sys

import command  # first: it reports missing packages

import matplotlib.patches

import drawing
import rundata
import wording

MOST_ROWS = 16
TRACES = ["trace_simulated.json", "trace.json"]
# Name of the event → name in the legend and colour (Okabe and Ito, as drawing.COLOURS).
KINDS = {
    "forward": ("forward", "#56B4E9"),
    "backward": ("backward", "#E69F00"),
    "backward_input": ("backward, inputs", "#D55E00"),
    "backward_weight": ("backward, weights", "#009E73"),
    "gradient_reduction": ("gradient reduction", "#CC79A7"),
    "update": ("update", "#000000"),
    "parameter_all_gather": ("parameter all-gather", "#999999"),
}
# Names in traces of version 0.1.0.
OLD_NAMES = {"gradient_sum": "gradient_reduction", "share_parameters": "parameter_all_gather"}
PASSES = {"forward", "backward", "backward_input", "backward_weight"}


class TimelineTrace:
    """One step of a trace: rows in the order of ranks, each a list of events with times in seconds since its start."""

    def __init__(self, path, step=None):
        self.path = path
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            events = content["traceEvents"]
            self.facts = content.get("otherData", {})
            self.names = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
            for e in events:
                e["name"] = OLD_NAMES.get(e["name"], e["name"])
            spans = [e for e in events if e["ph"] == "X" and e["name"] in KINDS]
            self.step, spans = self._chosen(spans, step)
            begin = min((e["ts"] for e in spans), default=0)
            self.rows = {pid: [] for pid in sorted(self.names)}
            for e in spans:
                bar = (e["name"], (e["ts"] - begin) * 1e-6, e["dur"] * 1e-6, e.get("args", {}))
                self.rows.setdefault(e["pid"], []).append(bar)
        except (OSError, UnicodeDecodeError) as problem:
            raise rundata.ReportError(f"Cannot read '{path}': {problem}.") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise rundata.ReportError(f"'{path}' is not a trace of bert_hpc.") from None

    def _chosen(self, spans, wanted):
        steps = {}
        for e in spans:
            steps.setdefault(e.get("args", {}).get("step", 0), []).append(e)
        if wanted is not None and wanted not in steps:
            known = ", ".join(str(step) for step in sorted(steps)) or "none"
            raise rundata.ReportError(f"'{self.path}' has no step {wanted}; it has {known}.")
        if not steps:
            return None, []
        if wanted is None:
            length = {s: max(e["ts"] + e["dur"] for e in es) - min(e["ts"] for e in es) for s, es in steps.items()}
            wanted = sorted(steps, key=lambda s: (length[s], s))[len(steps) // 2]
        return wanted, steps[wanted]

    @property
    def seconds(self):
        return max((begin + length for row in self.rows.values() for _, begin, length, _ in row), default=0.0)

    @property
    def bubble(self):
        """Share of the ranks' time, up to the end of the last pass, in which no pass is computed."""
        passes = [bar for row in self.rows.values() for bar in row if bar[0] in PASSES]
        end = max((begin + length for _, begin, length, _ in passes), default=0.0)
        busy = sum(length for _, _, length, _ in passes)
        return 1 - busy / (end * len(self.rows)) if end > 0 else 0.0

    @property
    def title(self):
        kind = wording.capital(str(self.facts.get("kind", "step")))
        details = [str(self.facts[name]) for name in ("schedule", "machine") if self.facts.get(name)]
        if len(self.rows) > 1 or self.bubble > 0.005:
            details.append(f"{'bubble' if self.facts.get('schedule') else 'idle'} {100 * self.bubble:.1f}%")
        return f"{kind}: " + ", ".join(details) if details else kind


def time_unit(seconds):
    return (1e3, "ms") if seconds < 1 else (1, "s")


def draw_trace(axes, trace, scale, width):
    rows = list(trace.rows)[:MOST_ROWS]
    parts = 1 + max((args.get("virtual_stage", 0) for row in trace.rows.values() for _, _, _, args in row), default=0)
    for position, pid in enumerate(rows):
        for name, begin, length, args in trace.rows[pid]:
            # Later virtual stages are paler.
            fade = 1 - 0.6 * args.get("virtual_stage", 0) / parts
            axes.barh(position, length * scale, left=begin * scale, height=0.82, color=KINDS[name][1], alpha=fade,
                      edgecolor="white", linewidth=0.4)
            if "micro_batch" in args and length > 0.016 * width and len(rows) <= 10:
                axes.text((begin + length / 2) * scale, position, str(args["micro_batch"]), ha="center", va="center",
                          fontsize="x-small", color="black")
    names = [trace.names.get(pid, str(pid)) for pid in rows]
    axes.set_yticks(range(len(rows)), names)
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)
    hidden = len(trace.rows) - len(rows)
    axes.set_title(trace.title + (f" (first {len(rows)} of {len(trace.rows)} ranks)" if hidden > 0 else ""), loc="left")


def draw_traces(traces, style=drawing.USUAL):
    traces = [trace for trace in traces if trace.seconds > 0]
    if not traces:
        return []
    width = max(trace.seconds for trace in traces)
    scale, unit = time_unit(width)
    heights = [0.55 + 0.42 * min(len(trace.rows), MOST_ROWS) for trace in traces]
    figure, grid = style.bars(len(traces), 1, 11, sum(heights) + 0.5 * len(traces) + 0.8, sharex=True, squeeze=False,
                              gridspec_kw={"height_ratios": heights})
    for axes, trace in zip(grid.flat, traces):
        draw_trace(axes, trace, scale, width)
    grid.flat[-1].set(xlabel=f"Time since start of step ({unit})", xlim=(0, 1.01 * width * scale))
    used = {name for trace in traces for row in trace.rows.values() for name, _, _, _ in row}
    handles = [matplotlib.patches.Patch(color=colour, label=label) for name, (label, colour) in KINDS.items() if name in used]
    drawing.legend_below(figure, len(handles), handles=handles, fontsize="medium", handlelength=1.2)
    return [("timeline", figure)]


def draw(runs, style=drawing.USUAL):
    """For report.py: draws the runs' traces."""
    files = [(run, run.path / name) for run in runs for name in TRACES if (run.path / name).is_file()]
    traces = [TimelineTrace(path) for _, path in files]
    if len(runs) > 1:
        for (run, _), trace in zip(files, traces):
            trace.facts["kind"] = f"{run.name}, {trace.facts.get('kind', 'step')}"
    return draw_traces(traces, style)


def trace_files(arguments):
    """The trace files that the arguments name; for a run's directory, the existing ones."""
    files = []
    for argument in arguments:
        path = pathlib.Path(argument)
        if path.is_dir():
            found = [path / name for name in TRACES if (path / name).is_file()]
            if not found:
                raise rundata.ReportError(f"There is no trace in '{path}': set [log] trace = true for a measured one, and [run] "
                                         "machine for a simulated one.")
            files += found
        elif path.is_file():
            files.append(path)
        else:
            raise rundata.ReportError(f"There is no '{path}'.")
    return files


def main(given=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", metavar="RUN|FILE", help="directory of a run, or a trace's file")
    parser.add_argument("--output", metavar="DIR", help="where the picture goes (default: report/ beside the first trace)")
    parser.add_argument("--step", type=int, help="which step of a measured trace")
    command.add_style(parser)
    options = parser.parse_args(given)

    def action():
        files = trace_files(options.traces)
        traces = [TimelineTrace(path) for path in files]
        if options.step is not None:  # a simulated step has no number
            traces = [t if t.facts.get("kind") == "simulated" else TimelineTrace(t.path, options.step) for t in traces]
        output = pathlib.Path(options.output) if options.output else files[0].parent / "report"
        output.mkdir(parents=True, exist_ok=True)
        style = command.style_of(options)
        with style.fonts():
            pictures = draw_traces(traces, style)
            if not pictures:
                print("Nothing to draw: the traces have no events.")
            for name, figure in pictures:
                for path in drawing.save(figure, name, output):
                    print(path)
        return 0

    return command.guarded(action)


if __name__ == "__main__":
    sys.exit(main())

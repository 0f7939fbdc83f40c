"""postprocess/plot_timeline.py on made traces: simulated and measured ones, a run's and single files, and what is no trace."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "postprocess"
sys.path[:0] = [str(SCRIPTS)]

import matplotlib  # noqa: E402

import plot_timeline  # noqa: E402

matplotlib.rcParams["savefig.dpi"] = 50


def trace(kind, ranks=2, steps=(None,)):
    """Each step: a forward of 1 s on one rank after the other, so that each is busy for 1 s of `ranks`."""
    events = [{"ph": "M", "name": "process_name", "pid": r, "tid": 0, "args": {"name": f"stage {r}"}} for r in range(ranks)]
    for number, step in enumerate(steps):
        for r in range(ranks):
            arguments = {"micro_batch": 0, "virtual_stage": 0} | ({} if step is None else {"step": step})
            events.append({"ph": "X", "name": "forward", "cat": "compute", "pid": r, "tid": 0, "ts": 1e8 * number + 1e6 * r,
                           "dur": 1e6 * (1 + number), "args": arguments})
    return {"otherData": {"kind": kind, "schedule": "1f1b"}, "traceEvents": events}


def call(*arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = plot_timeline.main([str(argument) for argument in arguments])
    return code, out.getvalue(), err.getvalue()


class Timeline(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self._folder.name)

    def tearDown(self):
        self._folder.cleanup()

    def write(self, name, content):
        path = self.folder / name
        path.write_text(json.dumps(content), encoding="utf-8")
        return path

    def test_a_run_with_both(self):
        self.write("trace.json", trace("measured", steps=(3, 4, 5)))
        self.write("trace_simulated.json", trace("simulated"))
        code, out, err = call(self.folder)
        self.assertEqual((code, err), (0, ""))
        self.assertGreater((self.folder / "report" / "timeline.png").stat().st_size, 1000)
        self.assertIn("timeline.pdf", out)
        self.assertEqual(call(self.folder, "--step", "4")[0], 0)

    def test_the_bubble(self):
        drawn = plot_timeline.TimelineTrace(self.write("t.json", trace("simulated", ranks=4)))
        self.assertAlmostEqual(drawn.bubble, 0.75)  # each of four ranks computes for one of four seconds
        self.assertIn("bubble 75.0%", drawn.title)

    def test_the_step_of_median_duration(self):
        path = self.write("t.json", trace("measured", steps=(7, 8, 9)))
        self.assertEqual(plot_timeline.TimelineTrace(path).step, 8)
        code, _, err = call(path, "--step", "1")
        self.assertEqual(code, 4)
        self.assertIn("it has 7, 8, 9", err)

    def test_more_ranks_than_rows(self):
        self.assertEqual(call(self.write("t.json", trace("measured", ranks=40)))[0], 0)

    def test_what_is_no_trace(self):
        for content in ({}, [], {"traceEvents": 3}, {"traceEvents": [{"ph": "X"}]}):
            code, _, err = call(self.write("t.json", content))
            self.assertEqual(code, 4, err)
            self.assertIn("is not a trace", err)
        (self.folder / "broken.json").write_bytes(b"{\xff")
        self.assertEqual(call(self.folder / "broken.json")[0], 4)
        empty = self.folder / "empty"
        empty.mkdir()
        self.assertIn("[log] trace = true", call(empty)[2])
        self.assertEqual(call(self.folder / "absent")[0], 4)

    def test_nothing_happened(self):
        code, out, _ = call(self.write("t.json", {"traceEvents": []}))
        self.assertEqual(code, 0)
        self.assertIn("Nothing to draw", out)


if __name__ == "__main__":
    unittest.main()

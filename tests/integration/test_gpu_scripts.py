"""run.sh and bench.sh of the bundle for GPU machines (tests/gpu), with programs that only pretend: one passes, one
crashes, one hangs, one fails, one is skipped. The order of lines, the time limits, the exit status and what is left in
$OUT."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from program import BUILD
from waiting import LIMIT, wait_until

TESTS = pathlib.Path(__file__).resolve().parents[1]
SHIM = BUILD.resolve() / "tests/libfailing_files.so"

NCU = '''#!/bin/sh
while [ "$1" != --log-file ]; do shift; done
cat >"$2" <<'LOG'
==PROF== Connected to process 1
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","dram__bytes.sum","gpu__time_duration.sum"
"","","","","","","","","","","","byte","ns"
"0","1","bench_training","127.0.0.1","nvjet_hsh","1","7","(384, 1, 1)","(132, 1, 1)","0","9.0","10000000","20000"
LOG
'''
STEP = """import json, sys
steps = int(sys.argv[sys.argv.index("--steps") + 1])
print(json.dumps({"program": "PROGRAM", "seconds": [SECONDS] * steps}))
"""
TEST_PROGRAMS = ("golden", "gradient", "model", "mpi_pipeline", "ops", "train")


class Scripts(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.bundle = pathlib.Path(temporary.name) / "bundle"
        self.out = pathlib.Path(temporary.name) / "out"
        for folder in ("bin", "tools"):
            (self.bundle / folder).mkdir(parents=True)
        subprocess.run([TESTS / "gpu/copy_scripts.sh", self.bundle], check=True)
        self.limit_programs()
        self.tool("nvidia-smi", "echo pretended GPU")
        self.tool("compute-sanitizer", "exit 77")
        self.program("mpirun", 'shift 2; exec "$@"')
        for name in TEST_PROGRAMS:
            self.program(f"test_{name}", 'echo "All tests passed (1 assertion in 1 test case)"')
        for name in ("gpu", "embeddings"):
            (self.bundle / f"tests/integration/test_{name}.py").write_text('print("Ran 1 test in 0s")\n')

    def limit_programs(self, *names):
        """These test programs have the time limits of their steps. The others end by themselves, however slow the machine is."""
        cases = "".join(f' *"bin/test_{name}") exec {shutil.which("timeout")} "$@" ;;' for name in names)
        self.tool("timeout", f'case "$*" in{cases} *) shift 3; exec "$@" ;; esac')

    def tool(self, name, text):
        """A program of the machine, which is found through PATH."""
        self.executable(self.bundle / "tools" / name, text)

    def program(self, name, text):
        self.executable(self.bundle / "bin" / name, text)

    def executable(self, path, text):
        path.write_text(text if text.startswith("#!") else f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def command(self, script, *arguments):
        path = f"{self.bundle}/tools:{os.path.dirname(sys.executable)}:/usr/bin:/bin"
        environment = {"PATH": path, "OUT": str(self.out), "HOME": str(self.out)}
        return ["bash", str(self.bundle / script), *arguments], environment

    def start(self, script, *arguments):
        command, environment = self.command(script, *arguments)
        return self.results_of(subprocess.run(command, env=environment, capture_output=True, text=True, cwd="/"))

    def start_with_a_hanging_step(self, hanging, seconds, *arguments):
        """run.sh; once the step with the command line `hanging` runs, its time is over: clocks jump by so many seconds."""
        if not SHIM.exists():
            self.skipTest("clocks that jump are not part of this build")
        ahead = self.bundle.parent / "ahead"
        command, environment = self.command("run.sh", *arguments)
        environment |= {"LD_PRELOAD": str(SHIM), "BERT_HPC_CLOCK_AHEAD": str(ahead)}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/") as process:
            wait_until(lambda: self.processes(hanging), "the step that hangs", process)
            timer, = (pid for pid in self.processes("timeout") if self.parent_of(pid) == process.pid)
            (self.bundle.parent / "new").write_text(str(seconds))
            (self.bundle.parent / "new").rename(ahead)
            os.kill(timer, signal.SIGALRM)
            out, err = process.communicate(timeout=LIMIT)
        return self.results_of(subprocess.CompletedProcess(command, process.returncode, out, err))

    def results_of(self, done):
        # "RESULT  1.2 s  step: words"
        self.lines = re.findall(r"^(passed|skipped|FAILED|CRASHED|TIMEOUT|NOT RUN) +([0-9.]+) s  (\w+)(?:: (.*))?$", done.stdout, re.M)
        self.results = {name: result for result, _, name, _ in self.lines}
        return done

    def processes(self, marker):
        """Returns the processes with this in their command line."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and marker.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                pass
        return found

    def parent_of(self, process):
        try:
            return int(pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return 0

    def test_continues_after_steps_that_crash_hang_or_fail(self):
        hanging = "sleep 100000.0625"  # by which it is found again
        self.program("test_train", "echo before; kill -SEGV $$")
        self.program("test_model", f"trap '' TERM; {hanging}")
        self.limit_programs("model")
        self.program("test_gradient", "echo the reason; exit 3")
        self.program("test_golden", "echo skipped: no files; exit 4")
        done = self.start_with_a_hanging_step(hanging.split()[1], 1000, "--seconds", "100000", "--step-seconds", "30")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual([(name, result) for result, _, name, _ in self.lines], [
            ("nvidia_smi", "passed"), ("test_golden", "skipped"), ("test_gradient", "FAILED"), ("test_model", "TIMEOUT"),
            ("test_ops", "passed"), ("test_train", "CRASHED"), ("integration_gpu", "passed"),
            ("integration_embeddings", "passed"),
            ("sanitizer_memcheck", "skipped"), ("sanitizer_racecheck", "skipped"),
            ("test_mpi_pipeline_on_1", "passed"), ("test_mpi_pipeline_on_2", "passed")])
        words = {name: text for _, _, name, text in self.lines}
        self.assertEqual(words["test_ops"], "All tests passed (1 assertion in 1 test case)")
        self.assertEqual(words["test_golden"], "skipped: no files")
        self.assertIn("    status 3; the end of its output:\n    the reason\n", done.stdout)
        self.assertTrue(done.stdout.endswith("6 passed, 3 failed, 3 skipped\n"), done.stdout)
        self.assertEqual(done.stderr, "")
        self.assertEqual(self.processes(hanging.split()[1]), [])
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), ["run.log", "run.md"])
        log = (self.out / "run.log").read_text()
        self.assertIn("==== test_gradient (status 3): ./with_libraries.sh bin/test_gradient\nthe reason\n", log)
        table = (self.out / "run.md").read_text()
        self.assertRegex(table, r"(?m)^\| test_model \| TIMEOUT \| 1\d\d\d\.\d \| +\|$")
        self.assertIn("6 passed, 3 failed, 3 skipped", table)

    def test_a_line_comes_as_each_step_ends(self):
        self.program("test_train", "sleep 100000.0626")
        self.limit_programs("train")
        command, environment = self.command("run.sh")
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            self.assertIn("nvidia_smi", process.stdout.readline())
            for name in ("test_golden", "test_gradient", "test_model", "test_ops"):
                self.assertIn(name, process.stdout.readline())  # while the next one runs
            wait_until(lambda: self.processes("100000.0626"), "the next step", process)
            # A signal ends both, with the counts so far.
            process.send_signal(signal.SIGTERM)
            rest = process.stdout.read()
            self.assertEqual(process.wait(), 143)
        self.assertEqual(rest, "stopped by a signal\n5 passed, 0 failed, 0 skipped\n")
        self.assertEqual(self.processes("100000.0626"), [])

    def test_ends_in_time_and_reports_the_step_to_continue_from(self):
        hanging = "sleep 100000.0627"
        for name in ("golden", "gradient"):
            self.program(f"test_{name}", f"trap '' TERM; {hanging}")
        self.limit_programs("golden", "gradient")
        self.program("test_golden", f"trap '' TERM; tr '\\0' ' ' </proc/$PPID/cmdline >{self.bundle}/timer; {hanging}")
        done = self.start_with_a_hanging_step(hanging.split()[1], 600, "--seconds", "80", "--skip", "sanitizer")
        self.assertEqual(done.returncode, 1)
        # The step, of at most 90 s, had the rest of the time, less 3 s until it is killed.
        limit = int(re.search(r"timeout -k 3 (\d+) ", (self.bundle / "timer").read_text())[1])
        self.assertLess(limit, 78)
        self.assertGreater(limit, 0)
        self.assertEqual(self.results["test_golden"], "TIMEOUT")
        self.assertEqual(self.results["test_train"], "NOT RUN")
        late = [name for result, _, name, _ in self.lines if result == "NOT RUN"]
        self.assertTrue(done.stdout.endswith(f"{len(late)} not run: continue with --from {late[0]}\n"), done.stdout)
        done = self.start("run.sh", "--from", "test_ops")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(list(self.results)[:2], ["test_ops", "test_train"])

    def test_choosing_steps(self):
        listed = self.start("run.sh", "--list").stdout.split()
        self.assertEqual(listed[:6], ["nvidia_smi", "test_golden", "test_gradient", "test_model", "test_ops", "test_train"])
        self.assertFalse(self.out.exists())
        self.start("run.sh", "--only", "^test_g", "--skip", "golden")
        self.assertEqual(self.results, {"test_gradient": "passed"})
        for arguments in (("--from", "no_such_step"), ("--seconds",), ("--seconds", "1m"), ("--frm", "x")):
            self.assertEqual(self.start("run.sh", *arguments).returncode, 2, arguments)

    def test_programs_get_their_libraries_and_no_launch_blocking(self):
        self.program("test_ops", 'env >"$OUT/environment"; echo "= $#"')
        self.assertEqual(self.start("run.sh", "--only", "test_ops").returncode, 0)
        self.assertEqual(self.lines[0][3], "0")
        environment = (self.out / "environment").read_text()
        self.assertIn(f"\nLD_LIBRARY_PATH={self.bundle}/lib:", "\n" + environment)
        self.assertIn(f"\nBERT_HPC_TESTS_DIRECTORY={self.bundle}/tests\n", "\n" + environment)
        self.assertNotIn("CUDA_LAUNCH_BLOCKING", environment)

    def test_a_filter_chooses_cases_of_test_ops(self):
        self.program("test_ops", 'echo "= $1"')
        command, environment = self.command("run.sh", "--only", "test_ops")
        environment["TEST_OPS"] = "*norm*,column sums*"
        self.results_of(subprocess.run(command, env=environment, capture_output=True, text=True, cwd="/"))
        self.assertEqual(self.lines[0][3], "*norm*,column sums*")

    def bench(self, *arguments):
        self.program("bench_fp8", 'echo "= 1 of 2 accepted"')
        self.program("bench_rows", 'echo "= $*"')
        self.program("bench_attention", 'echo "= $* at 100 TFLOP/s"')
        step = f"#!{sys.executable}\n" + STEP.replace("PROGRAM", "ours").replace("SECONDS", "0.01")
        self.program("bench_training", step.replace("import json, sys", "import json, os, sys\nprint(os.environ.get('BERT_HPC_GPU_CACHE'))"))
        (self.bundle / "bench/bench_training.py").write_text(STEP.replace("PROGRAM", "PyTorch").replace("SECONDS", "0.03"))
        (self.bundle / "bench/program_case.py").write_text('import sys\nprint("=", *sys.argv[1:])')
        return self.start("bench.sh", *arguments)

    def test_benchmarks_in_their_order(self):
        self.tool("ncu", NCU)
        done = self.bench()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        order = [name for _, _, name, _ in self.lines]
        indices = [order.index(name) for name in (
            "nvidia_smi", "test_ops", "attention_bf16_12x64", "ours_base_squad", "kernels_base_squad", "program_fp8_large_squad",
            "pytorch_base_squad", "pytorch_unpadded_base_squad", "pytorch_compiled_base_squad", "comparison")]
        self.assertEqual(indices, sorted(indices))
        words = {name: text for _, _, name, text in self.lines}
        self.assertEqual(words["attention_bf16_12x64"], "bf16 12 64 at 100 TFLOP/s")
        self.assertEqual(words["rows_1024"], "5065 1024")
        self.assertIn("10.00 ms a step, 3200 sequences/s", words["ours_base_squad"])
        self.assertIn("1 kernels, 0.02 ms; expected", words["kernels_base_squad"])
        self.assertEqual(words["program_fp8_large_squad"], "--case large_squad --compute fp8")
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), [
            "bench.log", "bench.md", "gpu_kernels.json", "kernels.md", "kernels_base_512.csv", "kernels_base_squad.csv", "kernels_base_squad_fp8.csv", "training.json", "training.md"])
        records = json.loads((self.out / "training.json").read_text())
        self.assertEqual(sum(record["name"] == "pytorch_compiled" for record in records), 1)
        self.assertRegex((self.out / "training.md").read_text(), r"\| base_squad \| ours, ours \| 10\.00 \| 3200 \| [0-9.]+ \| 3\.00 \|")
        self.assertIn("| matrix products | 1 |", (self.out / "kernels.md").read_text())
        # Options are tried each way.
        log = (self.out / "bench.log").read_text()
        for value in ("kokkos", "none"):
            part = log[log.index(f"==== ours_cache_{value}_base_squad ") :]
            self.assertEqual(part.splitlines()[1], value)

    def test_benchmarks_where_tools_are_missing(self):
        (self.bundle / "bench/bench_training.py").unlink(missing_ok=True)
        done = self.bench("--only", "^(ours_base_short|kernels_base_squad|nvidia_smi)$")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(self.results["kernels_base_squad"], "skipped")
        self.tool("ncu", 'while [ "$1" != --log-file ]; do shift; done; echo ==ERROR== ERR_NVGPUCTRPERM >"$2"; exit 1')
        self.tool("nvidia-smi", "exit 9")
        done = self.bench("--only", "^(ours_base_short|kernels_base_squad|nvidia_smi)$")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.results, {"nvidia_smi": "FAILED", "ours_base_short": "passed", "kernels_base_squad": "FAILED"})
        self.assertIn("    ==ERROR== ERR_NVGPUCTRPERM\n", done.stdout)


if __name__ == "__main__":
    unittest.main()

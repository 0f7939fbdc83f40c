"""bert_hpc as a batch job of a real Slurm of two nodes: srun over both, jobs/train.slurm and array.slurm, exit codes,
scancel; and what interrupts jobs: a signal, preemption, a node that dies. A job that was interrupted ends with the bits of
one that was not."""

import csv
import hashlib
import os
import pathlib
import re
import shutil
import signal
import sys
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))

import cluster  # noqa: E402
import h5py  # noqa: E402
import program  # noqa: E402
import test_studies  # noqa: E402
from waiting import LIMIT, contains, recorded_steps, wait_for_pauses, wait_until  # noqa: E402

JOBS = HERE.parent.parent / "jobs"
SHIM = program.BUILD.resolve() / "tests/libfailing_files.so"
if reason := cluster.why_not() or (None if SHIM.exists() else "steps that wait are not part of this build"):
    print(f"skipped: {reason}")
    sys.exit(77)

# Instead of the program: the steps of a run wait for the number in INPUT.toml.steps (support/failing_files.cpp), and the
# starts after a job's first one for INPUT.toml.restart, if INPUT.toml.waits exists.
HELD_PROGRAM = f"""#!/bin/sh
for word; do case $word in *.toml) input=$word ;; esac; done
if [ "${{SLURM_RESTART_COUNT:-0}}" -gt 0 ] && [ -e "$input.waits" ]; then
  until [ -e "$input.restart" ]; do sleep 0.1; done
fi
if [ -e "$input.steps" ]; then export LD_PRELOAD={SHIM} BERT_HPC_STEPS="$input.steps"; fi
exec {program.BUILD.resolve()}/bert_hpc "$@"
"""

# Instead of srun. PMIx may release ranks from the second fence of MPI_Init before one has entered it, which crashes at a message
# that it gets then (github.com/openpmix/openpmix/pull/4252; seen with PMIx 4.2.2 in some of several hundred starts under load). The
# program has printed nothing by then: such a start is repeated.
PATIENT_SRUN = f"""#!/bin/bash
seen=$(mktemp -d)
trap 'rm -rf "$seen"' EXIT
for attempt in 1 2 3 4; do
  {{
    {{ {shutil.which("srun")} "$@" 2>&1 1>&3 3>&- | tee "$seen/errors" 1>&2 3>&-; exit "${{PIPESTATUS[0]}}"; }} 3>&1 | tee "$seen/output"
  }}
  status=${{PIPESTATUS[0]}}
  if [ $status != 139 ] || [ -s "$seen/output" ] || ! grep -qF "Failing at address: (nil)" "$seen/errors"; then break; fi
done
exit $status
"""


def weights(run):
    return hashlib.sha256((run / "model/model.safetensors").read_bytes()).hexdigest()


def status(run):
    with h5py.File(run / "metrics.h5") as metrics:
        return metrics.attrs["status"]


class Slurm(program.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.slurm = cluster.Cluster()
        cls.folder = cls.work.folder
        tools = cls.folder / "tools"
        tools.mkdir()
        for name, script in (("bert_hpc", HELD_PROGRAM), ("srun", PATIENT_SRUN)):
            (tools / name).write_text(script)
            (tools / name).chmod(0o755)
        cls.environment = {"PATH": f"{tools}:{program.BUILD.resolve()}:{os.environ['PATH']}"}

    @classmethod
    def tearDownClass(cls):
        cls.slurm.close()
        super().tearDownClass()

    def input(self, name, **tables):
        """An input whose run goes to the folder of that name; the input and that folder."""
        run = {"directory": str(self.folder / name), "reproducible": True} | tables.pop("run", {})
        data = {"validation": None} | tables.pop("data", {})
        return self.work.input(f"{name}.toml", run=run, data=data, **tables), self.folder / name

    def srun(self, *command, ranks=4, **options):
        return self.slurm.run("srun", f"-n{ranks}", "-N2", f"--ntasks-per-node={ranks // 2}", *command,
                              environment=self.environment, **options)

    def sbatch(self, *command, ranks=4):
        """jobs/train.slurm on both nodes; the job and where its log will be."""
        job = self.slurm.submit("-N2", f"--ntasks-per-node={ranks // 2}", "--cpus-per-task=1", JOBS / "train.slurm",
                                *command, cwd=self.folder, environment=self.environment)
        return job, self.folder / f"bert_hpc-{job}.log"

    def assert_no_process_left(self):
        wait_until(lambda: not self.slurm.run("pgrep", "-x", "bert_hpc").stdout.strip(), "the end of all ranks")

    def started(self, path, run):
        """srun in a thread, some steps of whose run are recorded; where its end will be, and the thread."""
        done = []
        thread = threading.Thread(target=lambda: done.append(self.srun("bert_hpc", path)))
        thread.start()
        wait_until(lambda: recorded_steps(run) >= 20, f"steps in {run}", output=self.slurm.logs)
        return done, thread

    def end_of(self, done, thread):
        thread.join(timeout=LIMIT)
        self.assertFalse(thread.is_alive(), "the run does not end")
        return done[0]

    def rank(self, path, number):
        """The process of that rank."""
        variable = f"SLURM_PROCID={number}".encode()
        process, = (p for p in program.ranks_of(path.name.encode())
                    if variable in pathlib.Path(f"/proc/{p}/environ").read_bytes().split(b"\0"))
        return process

    def test_four_ranks_on_two_nodes_give_the_bits_of_one(self):
        alone, alone_run = self.input("alone", schedule={"epochs": None, "steps": 10})
        program.run("bert_hpc", alone, threads=1, check=0)
        path, run = self.input("nodes", schedule={"epochs": None, "steps": 10})
        self.srun("bert_hpc", path, check=0)
        with h5py.File(run / "metrics.h5") as metrics:
            hosts = {host.decode() for host in metrics["ranks/host"][:]}
        self.assertEqual(hosts, {"node1", "node2"})
        self.assertEqual(weights(run), weights(alone_run))

    def test_grid_over_two_nodes(self):
        alone, alone_run = self.input("alone_grid", schedule={"epochs": None, "steps": 10})
        program.run("bert_hpc", alone, threads=1, check=0)
        path, run = self.input("grid", schedule={"epochs": None, "steps": 10}, parallel={"data": 2, "pipeline": 2})
        self.srun("bert_hpc", path, check=0)
        self.assertEqual(weights(run), weights(alone_run))

    def test_a_rank_of_the_other_node_that_is_stopped_for_ever(self):
        path, run = self.input("stopped", schedule={"epochs": None, "steps": 1000000000, "warmup_ratio": None, "name": "constant"},
                               run={"watchdog_seconds": 2.5, "watchdog_limit_seconds": 4.0})
        started = self.started(path, run)
        wait_for_pauses(program.ranks_of(path.name.encode()), "watchdog", 3)  # all have heard all
        os.kill(self.rank(path, "3"), signal.SIGSTOP)
        done = self.end_of(*started)
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertNotIn("has heard nothing", done.stdout)
        self.assertEqual(done.stdout.count("warning: rank 3 on node2 has sent no heartbeat for"), 1, done.stdout)
        self.assertEqual(done.stderr.count("bert_hpc: error: rank 3 on node2 has sent no heartbeat"), 1, done.stderr)
        self.assert_no_process_left()

    def test_exit_status_of_a_bad_input(self):
        path, run = self.input("bad", optimizer={"learning_rat": 1.0})
        done = self.srun("bert_hpc", path, check=2)
        self.assertIn("learning_rate", done.stderr)
        self.assertEqual(done.stderr.count("learning_rat\""), 1, done.stderr)
        self.assertFalse(run.exists())
        self.assert_no_process_left()

    def test_exit_status_is_that_of_the_failure(self):
        """The status is the same under srun as under mpirun, for any rank that finds the error."""
        shards = self.folder / "shards"
        diverging = {"optimizer": {"learning_rate": 1e30, "max_skipped_steps": 0, "max_gradient_norm": None},
                     "schedule": {"epochs": 5, "warmup_ratio": None, "name": "constant"}}
        for name, expected, words, tables in (
                ("data", 3, "nothing-*.h5", {"data": {"train": [f"{shards}/nothing-*.h5"]}}),
                ("files", 4, "rows.tsv", {"run": {"directory": str(self.folder / "rows.tsv/run")}}),
                ("numbers", 5, "was skipped", diverging)):
            with self.subTest(name):
                path, _ = self.input(name, **tables)
                done = self.srun("bert_hpc", path, check=expected)
                self.assertEqual(done.stderr.count("bert_hpc: error"), 1, done.stderr)
                self.assertIn(words, done.stderr)
                self.assert_no_process_left()

    def test_a_rank_that_is_killed_ends_all(self):
        for name, victim in (("killed", "3"), ("killed0", "0")):
            with self.subTest(name):
                path, run = self.input(name, schedule={"epochs": None, "steps": 1000000000, "warmup_ratio": None, "name": "constant"})
                started = self.started(path, run)
                os.kill(self.rank(path, victim), signal.SIGKILL)
                done = self.end_of(*started)
                # 6 if another rank has noticed the broken connection before Slurm has noticed the end of the process.
                self.assertIn(done.returncode, (137, 6), done.stderr)
                self.assert_no_process_left()

    def test_batch_script(self):
        path, run = self.input("batch", schedule={"epochs": 1})
        job, log = self.sbatch(path, "--set", "run.seed=9")
        self.slurm.wait_for(job, {"COMPLETED"})
        text = log.read_text()
        self.assertIn("on node[1-2]", text)
        self.assertIn("4 ranks", text)
        with h5py.File(run / "metrics.h5") as metrics:
            self.assertEqual(metrics.attrs["status"], "finished")
            self.assertIn("seed = 9", metrics.attrs["resolved_input"])

    def test_fewer_ranks_than_the_script_says(self):
        path, run = self.input("fewer", schedule={"epochs": None, "steps": 5})
        job = self.slurm.submit("-N1", "--ntasks=2", "--cpus-per-task=1", JOBS / "train.slurm", path, cwd=self.folder,
                                environment=self.environment)
        self.slurm.wait_for(job, {"COMPLETED"})
        self.assertIn("2 ranks", (self.folder / f"bert_hpc-{job}.log").read_text())

    def test_array(self):
        path, _ = self.input("array", schedule={"epochs": None, "steps": 20})
        job = self.slurm.submit("--array=1-2", f"--output={self.folder}/array-%a.log", "-N1", "--ntasks-per-node=2",
                                "--cpus-per-task=1", JOBS / "array.slurm", path, self.folder / "seeds", cwd=JOBS.parent,
                                environment=self.environment)
        for seed in (1, 2):
            self.slurm.wait_for(f"{job}_{seed}", {"COMPLETED"})
        first, second = (self.folder / f"seeds/seed-{seed}" for seed in (1, 2))
        for run in (first, second):
            self.assertEqual(status(run), "finished")
        self.assertNotEqual(weights(first), weights(second))

    def test_phases_that_wait_for_each_other(self):
        """The loop of jobs/README.md: a job for each line of a grid, which begins with the states of the job before."""
        path, _ = self.input("phases", schedule={"epochs": None, "steps": 5})
        grid, runs = self.folder / "phases.grid", self.folder / "phases"
        grid.write_text("first  run.seed=1\nsecond run.seed=2\n")
        after = []
        for phase in (1, 2):
            job = self.slurm.submit(*after, f"--array={phase}", f"--output={self.folder}/phase-%a.log", "-N1", "--ntasks-per-node=2",
                                    "--cpus-per-task=1", "--requeue", JOBS / "grid.sh", path, grid, runs, "--chain",
                                    cwd=JOBS.parent, environment=self.environment)
            after = [f"--dependency=afterok:{job}"]
        log = self.folder / "phase-2.log"
        fields = self.slurm.wait_for(f"{job}_2", {"COMPLETED", "FAILED", "CANCELLED"})
        self.assertEqual(fields["JobState"], "COMPLETED", log.read_text() if log.exists() else self.slurm.logs())
        self.assertIn("next phase after step 5 of another run", log.read_text())
        self.assertNotEqual(weights(runs / "first"), weights(runs / "second"))

    def test_a_study(self):
        """Its stages wait for each other: a model, its embeddings, classifiers on one and two ranks, and the report, which finds
        the same figures in both layouts."""
        data, output = self.folder / "sources.csv", self.folder / "study"
        test_studies.write_table(data, ["text", "source", "prompt_id", "text_length", "word_count"], test_studies.source_texts())
        jobs = program.installed_tree(self.folder, "jobs", "postprocess")
        submitted = self.slurm.run("bash", jobs / "study-sources.sh", "--data", data, "--size", "tiny", "--output", output,
                                   "--only", "^(bert-none|bert-data)$", "--slurm=--cpus-per-task=1", check=0,
                                   cwd=self.folder, environment=self.environment | {"BERT_HPC_PYTHON": sys.executable})
        report = re.search(r"Submitted the report: job (\d+)", submitted.stdout).group(1)
        fields = self.slurm.wait_for(report, {"COMPLETED", "FAILED", "CANCELLED"})
        logs = "\n".join(f"--- {path.name}\n{path.read_text()}" for path in sorted(output.glob("slurm-*.log")))
        self.assertEqual(fields["JobState"], "COMPLETED", logs)
        with open(output / "report/table.csv", encoding="utf-8") as file:
            losses = {row["row"]: row["mean"] for row in csv.DictReader(file) if row["measure"] == "loss" and row["mean"]}
        self.assertEqual(set(losses), {"bert-none", "bert-data"}, logs)
        self.assertAlmostEqual(float(losses["bert-none"]), float(losses["bert-data"]), 3)  # the order of fp32 sums differs

    def test_directives_of_the_array(self):
        """array.slurm runs train.slurm, whose directives have no effect then: the block of resources is the same in both."""
        def resources(name):
            text = (JOBS / name).read_text()
            return text[text.index("# --- Resources"):text.index("# --- End of resources.")]
        self.assertEqual(resources("array.slurm"), resources("train.slurm"))
        for option in ("account", "partition", "constraint", "mem", "gpus-per-node", "mail-type"):
            self.assertIn(f"\n##SBATCH --{option}=", resources("train.slurm"))

    def test_directives_that_are_switched_on(self):
        """Those of the block that this Slurm can satisfy (its nodes declare 1 MiB), with one "#" removed."""
        text = (JOBS / "train.slurm").read_text()
        for old, new in (("##SBATCH --partition=NAME", "#SBATCH --partition=main"), ("##SBATCH --mem=32G", "#SBATCH --mem=1M"),
                         ("##SBATCH --mail-type=", "#SBATCH --mail-type="), ("##SBATCH --account=PROJECT", "#SBATCH --account=tests"),
                         ("--ntasks-per-node=4", "--ntasks-per-node=2"), ("--cpus-per-task=8", "--cpus-per-task=1")):
            self.assertIn(old, text)
            text = text.replace(old, new)
        script = self.folder / "own.slurm"
        script.write_text(text)
        path, run = self.input("own", schedule={"epochs": None, "steps": 5})
        job = self.slurm.submit(script, path, cwd=self.folder, environment=self.environment)
        fields = self.slurm.wait_for(job, {"COMPLETED", "FAILED"})
        self.assertEqual((fields["JobState"], fields["Partition"], fields["Account"]), ("COMPLETED", "main", "tests"))
        self.assertEqual(status(run), "finished")

    ENDLESS = {"name": "constant", "epochs": None, "steps": 1000000000, "warmup_ratio": None}
    # Its steps wait for the test to interrupt it; a checkpoint every 50 steps for failures without a warning.
    LONG = {"schedule": {"epochs": None, "steps": 300}, "log": {"every_steps": 10, "progress": "lines"},
            "checkpoint": {"every_steps": 50}, "debug": {"step_delay_seconds": 0.001}}

    def long_run(self, name, **tables):
        """The input of such a run and its directory. No step after the 100th ends before release()."""
        path, run = self.input(name, **self.LONG | tables)
        path.with_name(f"{path.name}.steps").write_text("100")
        return path, run

    def release(self, path):
        path.with_name(f"{path.name}.new").write_text("1000000000")
        path.with_name(f"{path.name}.new").rename(path.with_name(f"{path.name}.steps"))

    def release_once_signalled(self, path, log, signal_name="SIGUSR1"):
        """Waits for either message: if the signal reaches the other node's ranks first, rank 0 stops with them and may never
        receive its own."""
        self.wait_until(lambda: contains(log, signal_name), f"{signal_name} at the run", log)
        self.release(path)

    def undisturbed(self):
        """Weights after the same steps on one rank without any interruption."""
        if not hasattr(type(self), "expected"):
            path, run = self.input("undisturbed", **self.LONG)
            program.run("bert_hpc", path, threads=1, check=0)
            type(self).expected = weights(run)
        return self.expected

    def wait_until(self, condition, what, log):
        wait_until(condition, what, output=lambda: log.read_text() if log.exists() else self.slurm.logs())

    def wait_until_under_way(self, log):
        self.wait_until(lambda: contains(log, "step 10/"), "step 10", log)

    def assert_finished_undisturbed(self, job, run, log):
        fields = self.slurm.wait_for(job, {"COMPLETED", "FAILED", "CANCELLED"})
        self.assertEqual(fields["JobState"], "COMPLETED", log.read_text())
        self.assertEqual(int(fields["Restarts"]), 1)
        self.assertEqual(status(run), "finished")
        self.assertEqual(weights(run), self.undisturbed())

    def test_signal_and_requeue(self):
        """The signal of --signal before the time limit: the run writes a checkpoint and ends with status 75; the job requeues
        itself and resumes."""
        path, run = self.long_run("signalled")
        job, log = self.sbatch(path)
        self.wait_until_under_way(log)
        self.slurm.run("scancel", "--signal=USR1", job, check=0)
        self.release_once_signalled(path, log)
        self.assert_finished_undisturbed(job, run, log)
        self.assertIn("requeueing the job", log.read_text())

    def test_no_more_restarts_than_allowed(self):
        path, run = self.input("enough", **self.LONG | {"schedule": self.ENDLESS})
        self.environment["BERT_HPC_MAX_RESTARTS"] = "0"
        self.addCleanup(self.environment.pop, "BERT_HPC_MAX_RESTARTS")
        job, log = self.sbatch(path)
        self.wait_until_under_way(log)
        self.slurm.run("scancel", "--signal=USR1", job, check=0)
        fields = self.slurm.wait_for(job, {"FAILED", "COMPLETED"})
        self.assertEqual((fields["JobState"], fields["ExitCode"], fields["Restarts"]), ("FAILED", "75:0", "0"))
        self.assertIn("stopped on request, after 0 restarts (BERT_HPC_MAX_RESTARTS): submit it again", log.read_text())
        self.assertEqual(status(run), "stopped")

    def test_time_limit(self):
        """Two jobs side by side. One has the script's own --signal, which Slurm sends when the test shortens the job's limit to a
        minute, the shortest that Slurm knows, because that is shorter than the warning time. The other job has one minute from
        the start and another signal, which the program ignores; it stops at the wall-time limit that the script sets. Both resume
        and end with the bits of a run that was never stopped."""
        # Evaluations take nearly all of the time, so that the undisturbed run, which has none, is short.
        shards = self.folder / "shards"
        slow = {"schedule": self.ENDLESS, "log": {"every_steps": 10, "progress": "lines"},
                "data": {"train": [f"{shards}/validation-*.h5"], "validation": [f"{shards}/train-*.h5"]}, "evaluation": {"every_steps": 1}}
        jobs = {}
        for name, options in (("warned", ("--time=20",)), ("limited", ("--time=1", "--signal=CONT@1"))):
            path, run = self.input(name, **slow)
            (self.folder / f"{name}.toml.waits").touch()
            job = self.slurm.submit("-N2", "--ntasks-per-node=1", "--cpus-per-task=1", *options,
                                    JOBS / "train.slurm", path, cwd=self.folder, environment=self.environment)
            jobs[name] = job, run, self.folder / f"bert_hpc-{job}.log"
        def limit(minutes):
            self.slurm.run("scontrol", "update", f"JobId={jobs['warned'][0]}", f"TimeLimit={minutes}", check=0)

        self.wait_until_under_way(jobs["warned"][2])  # before, the signal would end a program that has nothing to save
        limit(1)
        ends = {}

        def all_have_ended_once():
            for name, (_, run, log) in jobs.items():
                if name not in ends and log.exists() and "requeueing the job" in log.read_text():
                    steps = int((run / "checkpoints/latest").read_text()[5:])
                    ends[name] = {"schedule": self.ENDLESS | {"steps": steps + 20}, "data": {"train": slow["data"]["train"]}}
                    self.input(name, **ends[name])  # read by the next start, which waits for it
                    if name == "warned":
                        limit(20)  # else the next start is warned at once
                    (self.folder / f"{name}.toml.restart").touch()
            return len(ends) == len(jobs)
        self.wait_until(all_have_ended_once, "the end of both first starts", jobs["limited"][2])
        for name, reason in (("warned", "on SIGUSR1"), ("limited", "before the wall-time limit")):
            job, run, log = jobs[name]
            fields = self.slurm.wait_for(job, {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"})
            self.assertEqual(fields["JobState"], "COMPLETED", log.read_text()[-2000:])
            self.assertGreaterEqual(int(fields["Restarts"]), 1)
            steps = ends[name]["schedule"]["steps"] - 20
            self.assertIn(f"stopped after step {steps:,} {reason}; checkpoint written", log.read_text())
            self.assertIn(f"resuming from step {steps:,} (", log.read_text())
        for name, tables in ends.items():
            path, undisturbed = self.input(f"{name}_undisturbed", **tables)
            program.run("bert_hpc", path, threads=1, check=0)
            self.assertEqual(weights(jobs[name][1]), weights(undisturbed))

    def test_overwrite_and_requeue(self):
        """--overwrite removes results from before the job, but not those that the job itself has made before it was requeued."""
        earlier, _ = self.input("again", schedule={"epochs": None, "steps": 3})
        program.run("bert_hpc", earlier, threads=1, check=0)
        path, run = self.long_run("again")
        job, log = self.sbatch(path, "--overwrite")
        self.wait_until_under_way(log)
        self.slurm.run("scancel", "--signal=USR1", job, check=0)
        self.release_once_signalled(path, log)
        self.assert_finished_undisturbed(job, run, log)
        self.assertIn("resuming from step", log.read_text())

    def test_one_task_of_an_array_queues_itself_again(self):
        """One task has the array's own number for its job: the other tasks continue, or stay finished, when Slurm requeues it."""
        path, _ = self.long_run("tasks")
        job = self.slurm.submit("--array=1-3", f"--output={self.folder}/tasks-%a.log", "-N1", "--ntasks-per-node=1",
                                "--cpus-per-task=1", JOBS / "array.slurm", path, self.folder / "tasks", cwd=JOBS.parent,
                                environment=self.environment)
        logs = {task: self.folder / f"tasks-{task}.log" for task in (1, 2, 3)}
        for log in logs.values():
            self.wait_until_under_way(log)
        states = {task: self.slurm.state(f"{job}_{task}") for task in logs}
        own, = (task for task, fields in states.items() if fields["JobId"] == job)
        self.slurm.run("scancel", "--signal=USR1", f"{job}_{own}", check=0)
        self.release_once_signalled(path, logs[own])
        for task, log in logs.items():
            fields = self.slurm.wait_for(f"{job}_{task}", {"COMPLETED", "FAILED", "CANCELLED"})
            self.assertEqual(fields["JobState"], "COMPLETED", log.read_text())
            self.assertEqual(int(fields["Restarts"]), 1 if task == own else 0, log.read_text())
            self.assertEqual(status(self.folder / f"tasks/seed-{task}"), "finished")

    def test_preemption(self):
        path, run = self.long_run("preempted")
        job, log = self.sbatch(path)
        self.wait_until_under_way(log)
        urgent = self.slurm.submit("-N2", "--exclusive", "--partition=urgent", "--wrap", "true", cwd=self.folder,
                                   environment=self.environment)
        self.release_once_signalled(path, log, "SIGTERM")
        self.slurm.wait_for(urgent, {"COMPLETED"})
        self.assert_finished_undisturbed(job, run, log)

    def test_scancel(self):
        path, run = self.input("cancelled", **self.LONG | {"schedule": self.ENDLESS})
        job, log = self.sbatch(path)
        self.wait_until_under_way(log)
        self.slurm.run("scancel", job, check=0)
        self.slurm.wait_for(job, {"CANCELLED"})
        self.assert_no_process_left()
        self.assertEqual(status(run), "stopped")
        self.assertTrue((run / "checkpoints/latest").exists())

    def test_z_node_failure(self):
        """This test is the last one, because the node does not come back: the job resumes with half the ranks on the other node."""
        path, run = self.long_run("orphaned")
        job, log = self.sbatch(path)
        self.wait_until(lambda: (run / "checkpoints/latest").exists(), "a checkpoint", log)
        self.slurm.fail_node(2)
        self.release(path)
        # It queues itself, for two nodes; an administrator, or its user, lets it have one.
        self.wait_until(lambda: self.slurm.state(job)["Restarts"] == "1", "the requeued job", log)
        self.slurm.run("scontrol", "update", f"JobId={job}", "NumNodes=1", "NumTasks=2", "NumCPUs=2", check=0)
        self.assert_finished_undisturbed(job, run, log)
        self.assertIn("start 2, on node1\n", log.read_text())


if __name__ == "__main__":
    unittest.main()

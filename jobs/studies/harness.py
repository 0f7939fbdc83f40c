"""What the studies share: the plan of a study, the files in its folder, runs through jobs/grid.sh, and the report.

A study (essays.py, parallel.py, …) is a module with ABOUT, the text of its usage; add_options(parser), if it has
options of its own; OWN_MODELS, if these name its models instead of --model; SEEDS, {size: runs of each row}, if they
differ from the usual; and plan(options, given), which returns a Plan (study_plan.py): inputs of bert_hpc_prep and of
bert_hpc, and a Variant for each row of the table.
In the folder --output lie
  prep*.toml, *.toml       the inputs, and prep*.log what bert_hpc_prep printed
  shards*/                 made again if their input or a source file changed
  grid-STAGE-INPUT-N.txt   lines of jobs/grid.sh: variants of an input on N ranks; a stage needs runs of earlier ones
  runs/NAME                a run of each variant and seed
  runs/.grid/NAME.needs    what it depends on beside its line and its input: shards, needed runs, ranks; jobs/grid.sh
                           runs it again if any of these has changed, and keeps the earlier run in runs/.grid
  settings/SHARDS          the input and the files of these shards
  report/                  the tables, the pictures and README.md, which says what was shrunk
"""

import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

from command_line import JOBS, StudyError, options_of, parser_of, program
from study_plan import SPLITS, shards_of, toml_text, toml_value

REQUEUED = ("--requeue", "--signal=USR1@120", "--open-mode=append")  # as in train.slurm; the user's options win
KILL_DELAY = 0.02  # seconds a step of a run that is to be killed: a short one would have finished


class Study:
    """A study in its folder."""

    def __init__(self, name, module, words):
        self.name, self.given, self.words = name, parser_of(name, module).parse_args(words), words
        self.options, problems = options_of(self.given, module)
        self.output = self.options.output
        self.refused = {}  # variant -> why its input was refused after earlier stages
        if self.options.data.exists():
            try:
                self.plan = module.plan(self.options, self.given)
            except StudyError as problem:
                problems.append(str(problem))
        if problems:
            raise StudyError("\n".join(problems))
        if self.given.slurm is not None:  # its ranks are Slurm's
            self.plan.variants = [variant for variant in self.plan.variants if not variant.killed]
        self.plan.variants = self.plan.matching(self.given.only)
        if not self.plan.variants:
            raise StudyError(f"--only {self.given.only}: no row has such a name")

    # Files.

    def prep_text(self, folder):
        """The input of bert_hpc_prep for a folder of shards."""
        return toml_text({**self.plan.preps[folder], "output": {"directory": str(self.output / folder)}})

    def input_text(self, name):
        """An input of bert_hpc, with the folders of this study."""
        own = self.plan.inputs[name]
        splits = SPLITS if self.plan.preps["shards"].get("split") else SPLITS[:2]
        return toml_text(
            {
                **own,
                "model": own.get("model") or self.options.model,
                "data": {**shards_of(self.output / "shards", splits), **own.get("data", {})},
                "precision": {"compute": self.options.compute, **own.get("precision", {})},
                "run": {"mode": "train", "directory": str(self.output / "runs" / "run"), **own.get("run", {})},
            }
        )

    def runs_of(self, variant):
        """[(name of the run, seed)]."""
        seeds = range(1, 2 if variant.once else self.options.seeds + 1)
        return [
            (variant.name if variant.once or self.options.seeds == 1 else f"{variant.name}-seed{seed}", seed)
            for seed in seeds
        ]

    def runs(self):
        """[(name of the run, variant, seed)]."""
        return [(name, variant, seed) for variant in self.plan.variants for name, seed in self.runs_of(variant)]

    def stages(self):
        return range(1 + max(map(self.plan.stage, self.plan.variants)))

    def finished(self, name):
        status = self.output / "runs" / name / ".status"  # as jobs/grid.sh sees it
        return status.is_file() and status.read_text().strip() == "finished"

    def missing(self, variant):
        """The runs that a variant needs and that have not finished."""
        return [name for name in variant.needs if not self.finished(name)]

    def prepare(self):
        """Shards, unless those that exist are of the same input and files. Returns what the runs depend on."""
        (self.output / "settings").mkdir(parents=True, exist_ok=True)
        if self.plan.write_sources:
            self.plan.write_sources()
        for name in self.plan.inputs:
            (self.output / f"{name}.toml").write_text(self.input_text(name))
        return "".join(self.prepare_folder(folder) for folder in self.plan.preps)

    def prepare_folder(self, folder):
        prep, name = self.prep_text(folder), folder.replace("shards", "prep", 1)
        stamp = prep + "".join(
            f"# {path}: {path.stat().st_size} bytes, {path.stat().st_mtime_ns}\n" for path in self.plan.sources
        )
        mark, shards, log = self.output / "settings" / folder, self.output / folder, self.output / f"{name}.log"
        (self.output / f"{name}.toml").write_text(prep)
        if mark.is_file() and mark.read_text() == stamp:
            say("Shards: made before")
            return stamp
        say("Shards: " + ", ".join(str(path) for path in self.plan.sources))
        mark.unlink(missing_ok=True)
        if shards.exists():
            shutil.rmtree(shards)
        with open(log, "w", encoding="utf-8") as file:
            done = subprocess.run(
                [program("bert_hpc_prep"), str(self.output / f"{name}.toml")],
                stdout=file,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode != 0:
            raise StudyError(f"bert_hpc_prep ended with status {done.returncode}:\n" + log.read_text()[-2000:].strip())
        mark.write_text(stamp)
        return stamp

    def start_afresh(self, stamp):
        """Moves runs that were started with other settings, or read such a run, to runs/.grid."""
        records = self.output / "runs" / ".grid"
        records.mkdir(parents=True, exist_ok=True)
        started = {}  # variant -> the settings of it and of what it needs
        for variant in sorted(self.plan.variants, key=self.plan.stage):
            needed = "".join(started[name] for name in variant.needs)
            started[variant.name] = (
                f"{needed}{self.input_text(variant.input)}\n{json.dumps(variant.settings, sort_keys=True)}\n"
            )
            for name, _ in self.runs_of(variant):
                (records / f"{name}.needs").write_text(f"{stamp}{needed}ranks = {variant.ranks}\n")
        for stage in self.stages():
            for own, ranks, grid, _ in self.write_grids(stage, everything=True):
                done = subprocess.run(
                    self.grid_command(own, grid, ranks),
                    env={**os.environ, "BERT_HPC_GRID_RUN": "0"},
                    stderr=subprocess.PIPE,
                    text=True,
                    check=False,
                )
                if done.returncode != 0:
                    raise StudyError(done.stderr.strip().removeprefix("error: "))

    def ready(self, stage, everything=False):
        """The runs of a stage, unless `everything` without those of variants that cannot run."""
        return [
            (name, variant, seed)
            for name, variant, seed in self.runs()
            if self.plan.stage(variant) == stage
            and (everything or not (self.missing(variant) or variant.name in self.refused))
        ]

    def write_grids(self, stage, everything=False):
        """[(input, ranks, file, number of lines)] of such runs."""
        grids = {}
        for name, variant, seed in self.ready(stage, everything):
            grids.setdefault((variant.input, variant.ranks), []).append(self.line_of(name, variant, seed))
        found = []
        for (own, ranks), lines in grids.items():
            path = self.output / f"grid-{stage + 1}-{own}-{ranks}.txt"
            path.write_text("\n".join(lines) + "\n")
            found.append((own, ranks, path, len(lines)))
        return found

    def check(self, stage):
        """Checks inputs and memory of a stage before its first run. Problems of the first stage end the study."""
        for variant in self.plan.variants:
            if self.plan.stage(variant) != stage or self.missing(variant):
                continue
            words = [
                word for key, value in variant.settings.items() for word in ("--set", f"{key}={toml_value(value)}")
            ]
            done = subprocess.run(
                [
                    program("bert_hpc"),
                    str(self.output / f"{variant.input}.toml"),
                    "--validate",
                    "--ranks",
                    str(variant.ranks),
                    *words,
                ],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                self.refused[variant.name] = (done.stderr or done.stdout).strip()
            elif warning := re.search(r"^warning: .*memory.*", done.stdout + done.stderr, re.MULTILINE):
                self.refused[variant.name] = warning.group(0)
        if self.refused and stage == 0:
            raise StudyError("\n".join(f"{name}: {problem}" for name, problem in self.refused.items()))

    # Runs.

    def grid(self, own, grid, ranks):
        """Runs the lines of a grid that are not finished; returns the status, 75 if a signal has ended it."""
        process = subprocess.Popen(self.grid_command(own, grid, ranks), env={**os.environ, "BERT_HPC_GRID_REPORT": "0"})
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:  # a terminal signals grid.sh too, which waits for the checkpoint
                continue

    def grid_command(self, own, grid, *ranks):
        words = [JOBS / "grid.sh", self.output / f"{own}.toml", grid, self.output / "runs", *ranks]
        return [str(word) for word in words]

    def run_here(self):
        """All runs, stage by stage, of which the first was checked; returns the first status that is not 0."""
        status = 0
        for stage in self.stages():
            if stage > 0:
                self.check(stage)
            for name, variant, seed in self.ready(stage):
                if variant.killed:
                    self.kill_in_the_middle(name, variant, seed)
            for own, ranks, grid, _ in self.write_grids(stage):
                ended = self.grid(own, grid, ranks)
                if ended == 75:
                    raise SystemExit(75)
                status = status or ended
        return status or (2 if self.refused else 0)

    def kill_in_the_middle(self, name, variant, seed):
        """Starts a run and kills its processes once it has written a checkpoint."""
        run = self.output / "runs" / name
        if (run / ".status").is_file():  # it was killed before, or has finished
            return
        grid = self.output / "grid-killed.txt"
        grid.write_text(self.line_of(name, variant, seed) + f" debug.step_delay_seconds={KILL_DELAY}\n")
        say(f"{name}: it is killed after its first checkpoint")
        started = subprocess.Popen(
            self.grid_command(variant.input, grid, variant.ranks),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        while started.poll() is None and not (run / "checkpoints" / "latest").exists():
            time.sleep(0.05)
        for process in processes_of(str(run)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        started.wait()

    @staticmethod
    def line_of(name, variant, seed):
        words = [f"{key}={toml_value(value)}" for key, value in {**variant.settings, "run.seed": seed}.items()]
        return f"{name} {' '.join(words)}"

    def submit(self):
        """The arrays, and a job that reports after the last of them has ended, however it ended."""
        options, before, ids = self.given.slurm.split(), [], []
        for stage in self.stages():
            before, ids = ids or before, []
            for own, ranks, grid, lines in self.write_grids(stage, everything=True):
                after = [f"--dependency=afterany:{':'.join(before)}"] if before else []
                # Slurm runs a copy of a script, which would not find the rest of jobs/: the job's script names it instead.
                wrapped = f"exec bash {shlex.join(self.grid_command(own, grid))}"
                command = [
                    "sbatch",
                    "--parsable",
                    f"--array=1-{lines}",
                    f"--ntasks={ranks}",
                    *after,
                    *REQUEUED,
                    f"--output={self.output}/slurm-%A-%a.log",
                    *options,
                    f"--wrap={wrapped}",
                ]
                ids.append(self.sbatch(command))
                say(f"Submitted {lines} runs on {ranks} ranks: job {ids[-1]}")
        wrapped = shlex.join([str(JOBS / f"study-{self.name}.sh"), *without_slurm(self.words), "--report-only"])
        job = self.sbatch(
            [
                "sbatch",
                "--parsable",
                f"--dependency=afterany:{':'.join(ids)}",
                *options,
                "--ntasks=1",
                f"--output={self.output}/slurm-report.log",
                f"--wrap={wrapped}",
            ]
        )
        say(f"Submitted the report: job {job}; it writes {self.output}/report/README.md")

    @staticmethod
    def sbatch(command):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise StudyError(f"sbatch ended with status {done.returncode}: {done.stderr.strip()}")
        return done.stdout.strip().partition(";")[0]


def without_slurm(words):
    """The command line without --slurm and its value."""
    kept, skip = [], False
    for i, word in enumerate(words):
        if skip:
            skip = False
            continue
        if word == "--slurm":
            skip = i + 1 < len(words) and not words[i + 1].startswith("--")
            continue
        if not word.startswith("--slurm="):
            kept.append(word)
    return kept


def processes_of(text):
    """The processes whose command line contains a text, but for this one."""
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            if text in (folder / "cmdline").read_bytes().decode("utf-8", "replace"):
                found.append(int(folder.name))
        except OSError:  # it has ended
            continue
    return found


def say(text):
    print(f"== {text}", flush=True)


def main(name, module, words):
    """Prepares, runs and reports; returns the exit status."""
    study = Study(name, module, words)
    status = 0
    if not study.given.report_only:
        stamp = study.prepare()
        study.check(0)
        study.start_afresh(stamp)
        if study.given.slurm is not None:
            study.submit()
            return 0
        status = study.run_here()
    import study_report  # it needs matplotlib, which the runs do not

    study_report.write(study)
    return status

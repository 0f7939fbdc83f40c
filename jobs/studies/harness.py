"""What the studies share: the command line, files of a study's folder, runs through jobs/grid.sh, and the report.

A study (essays.py, parallel.py, efficient.py) is a module with ABOUT, the text of its usage; add_options(parser), if it has
options of its own; and plan(options, given), which returns a Plan: the input of bert_hpc_prep, the input of bert_hpc, and
a Variant for each row of the table. In the folder --output lie
  prep.toml, train.toml    the inputs, and prep.log what bert_hpc_prep printed
  shards/                  made again if prep.toml or a source file changed
  grid-N.txt               the variants on N ranks, for jobs/grid.sh
  runs/NAME                a run of each variant and seed
  settings/NAME            with what a run was started: where this differs from what it would be started with, it runs again
  report/                  the table, the pictures and README.md, which says what was shrunk
"""

import argparse
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
from dataclasses import dataclass, field

# The folder of the shell scripts as it was called: Python resolves links in the paths of its modules.
JOBS = pathlib.Path(os.environ.get("BERT_HPC_JOBS") or pathlib.Path(__file__).absolute().parent.parent)
sys.path.insert(0, str(JOBS.parent / "postprocess"))

SIZES = ("tiny", "small", "full")


class StudyError(Exception):
    """What the user can correct: one line for each problem."""


@dataclass
class Variant:
    """A row of the table: a run for each seed."""

    name: str  # in file names
    label: str
    settings: dict = field(default_factory=dict)  # of bert_hpc, beside the study's input
    ranks: int = 1
    published: dict = field(default_factory=dict)  # measure -> the paper's number
    note: str = ""  # what differs from the paper
    killed: bool = False  # its ranks are killed after the first checkpoint, and it resumes


@dataclass
class Measure:
    """A column of the table. of(run) returns a number, NaN where the run has none."""

    key: str
    title: str
    of: object
    digits: int = 3
    change: bool = False  # also in per cent of the baseline's


@dataclass
class Plan:
    title: str
    prep: dict
    train: dict
    variants: list
    measures: list
    sources: list  # files that bert_hpc_prep reads
    baseline: str = ""  # the variant that changes are relative to
    shrunk: list = field(default_factory=list)  # sentences: what differs from the paper's setting
    write_sources: object = None  # write_sources() makes those of `sources` that are not the user's
    others: object = None  # others(study) returns rows without a run: [(label, {measure: value}, note)]
    pictures: object = None  # pictures(study, runs) returns [(name, figure)]
    learned: object = None  # learned(rows) returns the sentences that say what did not learn


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
    return "\n".join(f"[{table}]\n" + "".join(f"{key} = {toml_value(value)}\n" for key, value in keys.items())
                     for table, keys in tables.items())


def parser_of(name, module):
    parser = argparse.ArgumentParser(prog=f"jobs/study-{name}.sh", description=module.ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, metavar="PATH", help="the source file or folder, as the text above says")
    parser.add_argument("--model", default="", metavar="FOLDER|SIZES",
                        help="a Hugging Face folder with weights and vocabulary, or sizes of a model from scratch, for example"
                             " layers=2,hidden=128,heads=2 (the default of tiny and small); full needs it")
    parser.add_argument("--size", choices=SIZES, default="full", help="full: as published; small: minutes on a small machine; tiny: a trial")
    parser.add_argument("--ranks", type=int, default=0, metavar="N", help="MPI ranks of the parallel rows (default: as published)")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="", help="the build that runs (default: the one that is found)")
    parser.add_argument("--seeds", type=int, default=0, metavar="N", help="runs of each row (default: 3 of full, else 1)")
    parser.add_argument("--only", default="", metavar="REGEX", help="only the rows whose names match")
    parser.add_argument("--slurm", nargs="?", const="", default=None, metavar="OPTIONS",
                        help="submit to Slurm: an array for each number of ranks and a last job that reports; --slurm='--account=A --time=4:00:00' has options of sbatch")
    parser.add_argument("--output", default=f"study-{name}", metavar="FOLDER", help=f"default: study-{name}")
    parser.add_argument("--report-only", action="store_true", help="only make the report of the runs that exist")
    if hasattr(module, "add_options"):
        module.add_options(parser)
    return parser


@dataclass
class Options:
    data: pathlib.Path
    size: str
    ranks: int
    seeds: int
    model: dict  # the table [model]: "pretrained", or sizes
    vocabulary: str  # of the pretrained model; "": it is trained on the texts
    gpu: bool
    has_library: bool  # for matrix products

    @property
    def compute(self):
        """Mixed precision where it is fast."""
        return "bf16" if self.gpu else "fp32"

    @property
    def from_scratch(self):
        return "pretrained" not in self.model


SIZE_KEYS = {"layers": "num_hidden_layers", "hidden": "hidden_size", "heads": "num_attention_heads",
             "intermediate": "intermediate_size", "positions": "max_position_embeddings"}
SCRATCH = {"tiny": "layers=1,hidden=32,heads=2", "small": "layers=2,hidden=128,heads=2"}


def model_of(text, size, problems):
    """The table [model] and the vocabulary of --model."""
    if not text and size == "full":
        problems.append("--size full needs --model: a Hugging Face folder (bert-base-uncased as published), or sizes")
        return {}, ""
    text = text or SCRATCH[size]
    folder = pathlib.Path(text).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            problems.append(f"--model {text}: the folder has no config.json; give the folder of a Hugging Face model")
        return {"pretrained": str(folder.resolve())}, str(folder.resolve())
    if "=" not in text:
        problems.append(f"--model {text}: there is no such folder; sizes look like {SCRATCH['small']}")
        return {}, ""
    sizes = {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        if key not in SIZE_KEYS or not value.isdigit() or int(value) < 1:
            problems.append(f"--model: '{part}' is no size; there are {', '.join(SIZE_KEYS)}, each with a whole number above 0")
        else:
            sizes[SIZE_KEYS[key]] = int(value)
    for key in ("layers", "hidden", "heads"):
        if SIZE_KEYS[key] not in sizes and not problems:
            problems.append(f"--model {text}: {key} is missing")
    if not problems:
        sizes.setdefault("intermediate_size", 4 * sizes["hidden_size"])
        sizes.setdefault("max_position_embeddings", 512)
    return sizes, ""


def program(name):
    found = shutil.which(name)
    if found is None:
        raise StudyError(f"{name} is not on PATH and not built: run jobs/build.sh first")
    return found


class Study:
    """A study in its folder."""

    def __init__(self, name, module, words):
        given = parser_of(name, module).parse_args(words)
        self.name, self.given, self.words = name, given, words
        self.output = pathlib.Path(given.output).expanduser().resolve()
        problems = []
        data = pathlib.Path(given.data).expanduser()
        if not data.exists():
            problems.append(f"--data {given.data}: there is no such file or folder")
        if given.ranks < 0 or given.seeds < 0:
            problems.append("--ranks and --seeds are whole numbers above 0")
        model, vocabulary = model_of(given.model, given.size, problems)
        if given.slurm is not None and shutil.which("sbatch") is None:
            problems.append("--slurm: there is no sbatch on PATH; without --slurm the study runs on this machine")
        try:
            re.compile(given.only)
        except re.error as error:
            problems.append(f"--only {given.only}: {error}")
        version = subprocess.run([program("bert_hpc"), "--version"], capture_output=True, text=True, check=False).stdout
        gpu = re.search(r"^ *build +CPU", version, re.MULTILINE) is None
        if given.device and (given.device == "gpu") != gpu:
            problems.append(f"--device {given.device}: the bert_hpc on PATH is the {'GPU' if gpu else 'CPU'} build"
                            f" ({program('bert_hpc')}); load the module of the other, or put it first on PATH")
        self.options = Options(data.resolve(), given.size, given.ranks, given.seeds or (3 if given.size == "full" else 1), model, vocabulary, gpu,
                               re.search(r"oneDNN|BLAS", version) is not None)
        if data.exists():
            try:
                self.plan = module.plan(self.options, given)
            except StudyError as problem:
                problems.append(str(problem))
        if problems:
            raise StudyError("\n".join(problems))
        if given.slurm is not None:  # its ranks are Slurm's
            self.plan.variants = [variant for variant in self.plan.variants if not variant.killed]
        self.plan.variants = [variant for variant in self.plan.variants if re.search(given.only, variant.name)]
        if not self.plan.variants:
            raise StudyError(f"--only {given.only}: no row has such a name")

    # Files.

    def inputs(self):
        """prep.toml and train.toml, with the folders of this study."""
        prep = {**self.plan.prep, "output": {"directory": str(self.output / "shards")}}
        splits = ("train", "validation", "test") if self.plan.prep.get("split") else ("train", "validation")
        shards = {split: [str(self.output / "shards" / f"{split}-*.h5")] for split in splits}
        train = {**self.plan.train, "model": {**self.plan.train.get("model", {}), **self.options.model},
                 "data": {**shards, **self.plan.train.get("data", {})},
                 "precision": {"compute": self.options.compute, **self.plan.train.get("precision", {})}}
        train["run"] = {"mode": "train", "directory": str(self.output / "runs" / "run"), **train.get("run", {})}
        return toml_text(prep), toml_text(train)

    def runs(self):
        """[(name of the run, variant, seed)]."""
        return [(variant.name if self.options.seeds == 1 else f"{variant.name}-seed{seed}", variant, seed)
                for variant in self.plan.variants for seed in range(1, self.options.seeds + 1)]

    def prepare(self):
        """Shards, unless those that exist are of the same input and files."""
        (self.output / "settings").mkdir(parents=True, exist_ok=True)
        if self.plan.write_sources:
            self.plan.write_sources()
        prep, train = self.inputs()
        stamp = prep + "".join(f"# {path}: {path.stat().st_size} bytes, {path.stat().st_mtime_ns}\n" for path in self.plan.sources)
        mark, shards = self.output / "settings" / "shards", self.output / "shards"
        (self.output / "train.toml").write_text(train)
        (self.output / "prep.toml").write_text(prep)
        if mark.is_file() and mark.read_text() == stamp:
            say("Shards: made before")
            return stamp
        say("Shards: " + ", ".join(str(path) for path in self.plan.sources))
        mark.unlink(missing_ok=True)
        if shards.exists():
            shutil.rmtree(shards)
        with open(self.output / "prep.log", "w", encoding="utf-8") as log:
            done = subprocess.run([program("bert_hpc_prep"), str(self.output / "prep.toml")], stdout=log, stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            raise StudyError(f"bert_hpc_prep ended with status {done.returncode}:\n" + (self.output / "prep.log").read_text()[-2000:].strip())
        mark.write_text(stamp)
        return stamp

    def start_afresh(self, stamp):
        """Removes the runs that were started with other settings, and notes with what each is started."""
        _, train = self.inputs()
        for name, variant, seed in self.runs():
            own = f"{stamp}{train}\n# {variant.ranks} ranks, seed {seed}: {json.dumps(variant.settings, sort_keys=True)}\n"
            mark, run = self.output / "settings" / name, self.output / "runs" / name
            if run.exists() and (not mark.is_file() or mark.read_text() != own):
                say(f"{name}: its settings changed: it runs again")
                shutil.rmtree(run)
            mark.write_text(own)

    def write_grids(self):
        """{ranks: (file, number of lines)}: the lines of jobs/grid.sh."""
        grids = {}
        for name, variant, seed in self.runs():
            grids.setdefault(variant.ranks, []).append(self.line_of(name, variant, seed))
        found = {}
        for ranks, lines in sorted(grids.items()):
            path = self.output / f"grid-{ranks}.txt"
            path.write_text("\n".join(lines) + "\n")
            found[ranks] = (path, len(lines))
        return found

    def check(self):
        """Every variant's input and memory, before the first one starts."""
        problems = []
        for name, variant, _ in self.runs():
            words = [word for key, value in variant.settings.items() for word in ("--set", f"{key}={toml_value(value)}")]
            done = subprocess.run([program("bert_hpc"), str(self.output / "train.toml"), "--validate", "--ranks", str(variant.ranks), *words],
                                  capture_output=True, text=True, check=False)
            if done.returncode != 0:
                problems.append(f"{name}: {(done.stderr or done.stdout).strip()}")
            elif (warning := re.search(r"^warning: .*memory.*", done.stdout + done.stderr, re.MULTILINE)):
                problems.append(f"{name}: {warning.group(0)}")
        if problems:
            raise StudyError("\n".join(dict.fromkeys(problems)))

    # Runs.

    def grid(self, grid, ranks):
        """Runs the lines of a grid that are not finished; returns the status, 75 if a signal has ended it."""
        process = subprocess.Popen(self.grid_command(grid, ranks), env={**os.environ, "BERT_HPC_GRID_REPORT": "0"})
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:  # a terminal signals grid.sh too, which waits for the checkpoint
                continue

    def grid_command(self, grid, ranks):
        return [str(JOBS / "grid.sh"), str(self.output / "train.toml"), str(grid), str(self.output / "runs"), str(ranks)]

    def run_here(self):
        """All runs; returns the first status that is not 0."""
        status = 0
        for name, variant, seed in self.runs():
            if variant.killed:
                self.kill_in_the_middle(name, variant, seed)
        for ranks, (grid, _) in self.write_grids().items():
            own = self.grid(grid, ranks)
            if own == 75:
                raise SystemExit(75)
            status = status or own
        return status

    def kill_in_the_middle(self, name, variant, seed):
        """Starts a run and kills its processes once it has written a checkpoint."""
        run = self.output / "runs" / name
        if (run / ".status").is_file():  # it was killed before, or has finished
            return
        grid = self.output / "grid-killed.txt"
        grid.write_text(self.line_of(name, variant, seed) + "\n")
        say(f"{name}: it is killed after its first checkpoint")
        started = subprocess.Popen(self.grid_command(grid, variant.ranks), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
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
        options, ids = self.given.slurm.split(), []
        for ranks, (grid, lines) in self.write_grids().items():
            command = ["sbatch", "--parsable", f"--array=1-{lines}", f"--ntasks={ranks}", f"--output={self.output}/slurm-%A-%a.log", *options,
                       str(JOBS / "grid.sh"), str(self.output / "train.toml"), str(grid), str(self.output / "runs")]
            ids.append(self.sbatch(command))
            say(f"Submitted {lines} runs on {ranks} ranks: job {ids[-1]}")
        wrapped = shlex.join([str(JOBS / f"study-{self.name}.sh"), *without_slurm(self.words), "--report-only"])
        job = self.sbatch(["sbatch", "--parsable", f"--dependency=afterany:{':'.join(ids)}", "--ntasks=1", f"--output={self.output}/slurm-report.log",
                           f"--wrap={wrapped}"])
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
        study.start_afresh(study.prepare())
        study.check()
        if study.given.slurm is not None:
            study.submit()
            return 0
        status = study.run_here()
    import study_report  # it needs matplotlib, which the runs do not

    study_report.write(study)
    return status

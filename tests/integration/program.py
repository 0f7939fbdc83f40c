"""Runs the programs of the build for the integration tests: small data sets, inputs, launches under mpirun."""

import hashlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import unittest

import h5py

BUILD = pathlib.Path(os.environ.get("BERT_HPC_BUILD", "build"))
MPIRUN = shutil.which("mpirun")
# A machine's description: two ranks a node.
MACHINE = """[machine]
name = "test machine"
[node]
ranks = 2
[rank]
memory_gib = 4
memory_gb_per_second = 20
fp32_gflops = 100
[link_in_node]
gb_per_second = 8
latency_us = 1
[link_between_nodes]
gb_per_second = 2
latency_us = 3
"""


def run(program, *arguments, ranks=1, threads=None, check=None, cwd=None, variables={}):
    """Returns the finished process, output as text. check: the exit status that must come. variables: of the environment,
    beside those there are."""
    environment = dict(os.environ, **variables)
    if threads:
        environment["OMP_NUM_THREADS"] = str(threads)
    command = [str(BUILD / program), *map(str, arguments)]
    if ranks > 1:
        command = [MPIRUN, "-n", str(ranks), *command]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)
    if check is not None and done.returncode != check:
        raise AssertionError(f"{' '.join(command)}\nleft with {done.returncode}, not {check}:\n{done.stdout}\n{done.stderr}")
    return done


def installed_tree(folder, *names):
    """Makes FOLDER/tree like an installed one, with these folders of the checkout and the programs of this build; its scripts'
    folder."""
    share = folder / "tree/share/bert_hpc"
    share.mkdir(parents=True)
    for name in names:
        (share / name).symlink_to(pathlib.Path(__file__).resolve().parents[2] / name)
    (folder / "tree/bin").symlink_to(BUILD.resolve())
    return share / "jobs"


def as_if_killed_after(step, directory):
    """Makes of a finished run, which keeps its checkpoints, one that was killed after the checkpoint of `step`."""
    for path in (directory / "checkpoints").glob("step-*"):
        if int(path.name[5:]) > step:
            shutil.rmtree(path)
    (directory / "checkpoints" / "latest").write_text(f"step-{step:08d}\n")
    (directory / ".status").write_text("running\n")


def ranks_of(marker):
    """Returns the process ids of the bert_hpc ranks whose command line has the marker, in the order of ranks. The rank comes from
    the launcher's environment variables, because process ids wrap around. A process that a rank has forked is no rank,
    even before it executes another program (Open MPI's daemon of a run without mpirun)."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            environment = dict(word.partition(b"=")[::2] for word in (entry / "environ").read_bytes().split(b"\0"))
        except (OSError, ValueError):
            continue
        if words and words[0].endswith(b"bert_hpc") and any(marker in word for word in words[1:]):
            rank = (environment.get(b"OMPI_COMM_WORLD_RANK") or environment.get(b"PMIX_RANK")
                    or environment.get(b"SLURM_PROCID") or b"0")
            found[int(entry.name)] = (int(rank), parent)
    ranks = sorted((rank, process) for process, (rank, parent) in found.items() if parent not in found)
    return [process for _, process in ranks]


def end(process, path):
    """Ends what a failed test has left of a launch with the input `path`: the launcher, and ranks that outlive it."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=20)  # a launcher that hangs is killed
        except subprocess.TimeoutExpired:
            process.kill()
    for rank in ranks_of(str(path).encode()):
        try:
            os.kill(rank, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()


NOUNS = "dog cat bird river mountain engine circuit battery violin trumpet".split()
KINDS = {"animal": NOUNS[:3], "nature": NOUNS[3:5], "machine": NOUNS[5:8], "music": NOUNS[8:]}


def sentences(count, seed=1):
    """(text, label, score): a label that the text decides, a score that counts words; lengths from 4 to about 25."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        label = draw.choice(sorted(KINDS))
        filler = draw.choices("the a old small very often seen near some quiet".split(), k=draw.randint(1, 20))
        words = filler + [draw.choice(KINDS[label])]
        draw.shuffle(words)
        rows.append((" ".join(words), label, round(len(words) / 8, 3)))
    return rows


def write_tsv(path, rows):
    lines = ["text\tlabel\tscore"] + ["\t".join(map(str, row)) for row in rows]
    path.write_text("\n".join(lines) + "\n")


class Workspace:
    """A temporary folder with shards for one task."""

    def __init__(self, task="classification", rows=500, tokenizer="train_size = 120"):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="bert_hpc_test_"))
        write_tsv(self.folder / "rows.tsv", sentences(rows))
        label = {"classification": 'label = "label"', "regression": 'label = "score"', "masked_lm": ""}[task]
        (self.folder / "prep.toml").write_text(f"""
[source]
format = "tsv"
files = ["{self.folder}/rows.tsv"]
text = "text"
{label}
[split]
train = 0.7
validation = 0.15
test = 0.15
seed = 3
[tokenizer]
{tokenizer}
max_tokens = 32
[task]
name = "{task}"
[output]
directory = "{self.folder}/shards"
""")
        run("bert_hpc_prep", self.folder / "prep.toml", check=0)
        self.task = task

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def input(self, name="input.toml", **tables):
        """An input file for a small model; tables given replace or add keys: input(run={"mode": "evaluate"})."""
        shards = self.folder / "shards"
        values = {
            "run": {"mode": "train", "directory": str(self.folder / "run"), "seed": 5},
            "model": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
                      "max_position_embeddings": 32},
            "task": {"name": self.task},
            "data": {"train": [f"{shards}/train-*.h5"], "validation": [f"{shards}/validation-*.h5"]},
            "batch": {"global": 16},
            "optimizer": {"learning_rate": 3e-3},
            "schedule": {"epochs": 3, "warmup_ratio": 0.1},
            "log": {"every_steps": 1, "progress": "lines"},
        }
        for table, keys in tables.items():
            values[table] = None if keys is None else values.get(table, {}) | keys
        path = self.folder / name
        path.write_text("".join(
            f"[{table}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in keys.items() if value is not None)
            for table, keys in values.items() if keys is not None))
        return path


def toml(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def prepare_csv(folder, output, *arguments, check=0, ranks=1, **tables):
    """bert_hpc_prep with rows.csv and vocab.txt of `folder`, a classification; tables given replace or add keys."""
    values = {"source": {"format": "csv", "files": ["rows.csv"]}, "tokenizer": {"vocabulary": "vocab.txt", "max_tokens": 8},
              "task": {"name": "classification"}, "output": {"directory": output}}
    for table, keys in tables.items():
        values[table] = values.get(table, {}) | keys
    (folder / "prep.toml").write_text("".join(
        f"[{table}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in keys.items())
        for table, keys in values.items()))
    return run("bert_hpc_prep", "prep.toml", *arguments, check=check, ranks=ranks, cwd=folder)


def small_disk(test, kibibytes):
    """A folder that is a file system of this size until the test ends, which is skipped where none can be mounted."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bert_hpc_disk_"))
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(folder)],
                             capture_output=True, text=True)
    if mounted.returncode != 0:
        folder.rmdir()
        test.skipTest(f"no small disk can be mounted here: {mounted.stderr.strip()}")
    test.addCleanup(folder.rmdir)
    test.addCleanup(subprocess.run, ["umount", str(folder)], check=False)
    return folder


class Case(unittest.TestCase):
    task = "classification"
    rows = 500
    tokenizer = "train_size = 120"

    @classmethod
    def setUpClass(cls):
        if MPIRUN is None:
            raise unittest.SkipTest("mpirun is not at hand")
        cls.work = Workspace(cls.task, cls.rows, cls.tokenizer)

    @classmethod
    def tearDownClass(cls):
        cls.work.remove()


SIZES = dict.fromkeys(("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "max_position_embeddings"))


class TaskCase(unittest.TestCase):
    """Preparations and trainings of one task from a folder of its own, in which all paths are relative."""

    task = ""
    learning_rate = 2e-3
    epochs = 3
    hidden_size = 64
    max_tokens = 32
    shards = {"train": ["train/train-*.h5"], "test": ["test/test-*.h5"]}

    @classmethod
    def setUpClass(cls):
        if MPIRUN is None:
            raise unittest.SkipTest("mpirun is not at hand")
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="bert_hpc_task_"))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    @classmethod
    def train(cls, name, ranks=1, check=0, **more):
        """A run of a small model without dropout. more: tables of its input; a key that is None is left out."""
        tables = {"run": {"mode": "train", "directory": name, "seed": 5}, "task": {"name": cls.task},
                  "model": {"hidden_size": cls.hidden_size, "num_hidden_layers": 2, "num_attention_heads": 2,
                            "intermediate_size": 2 * cls.hidden_size, "max_position_embeddings": cls.max_tokens,
                            "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
                  "data": cls.shards, "batch": {"global": 16}, "optimizer": {"learning_rate": cls.learning_rate},
                  "schedule": {"epochs": cls.epochs, "warmup_ratio": 0.1}, "log": {"progress": "none"}}
        for table, keys in more.items():
            tables[table] = tables.get(table, {}) | keys
        return cls.start("bert_hpc", f"{name}.toml", tables, ranks, check)

    @classmethod
    def prepare_rows(cls, name, rows, labels, **tokenizer):
        """Shards NAME/train-*.h5 of so many short rows of text with one of so many labels."""
        lines = ["text\tlabel"] + [f"the {row % 97} dogs of {row % 7}\tclass {row % labels:03}" for row in range(rows)]
        (cls.folder / f"{name}.tsv").write_text("\n".join(lines) + "\n")
        cls.start("bert_hpc_prep", f"{name}_prep.toml",
                  {"source": {"format": "tsv", "files": [f"{name}.tsv"], "text": "text", "label": "label"},
                   "split": {"train": 1.0, "validation": 0.0, "test": 0.0},
                   "tokenizer": {"max_tokens": cls.max_tokens} | tokenizer, "task": {"name": cls.task},
                   "output": {"directory": name}}, 1, 0)

    def steps(self, name):
        """The loss of each step of a run."""
        with h5py.File(self.folder / name / "metrics.h5") as file:
            return list(file["steps/loss"][:])

    def weights(self, name):
        """Hash of the model that a run has written."""
        return hashlib.sha256((self.folder / name / "model/model.safetensors").read_bytes()).hexdigest()

    @classmethod
    def start(cls, program, file, tables, ranks, check):
        (cls.folder / file).write_text("".join(
            f"[{table}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in keys.items() if value is not None)
            for table, keys in tables.items()))
        return run(program, file, ranks=ranks, threads=1, check=check, cwd=cls.folder)

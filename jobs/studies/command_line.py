"""The command line of a study: its options, the models that they name, and the programs that it runs."""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass

# The folder of the shell scripts as it was called: Python resolves links in the paths of its modules.
JOBS = pathlib.Path(os.environ.get("BERT_HPC_JOBS") or pathlib.Path(__file__).absolute().parent.parent)
sys.path.insert(0, str(JOBS.parent / "postprocess"))

SIZES = ("tiny", "small", "full")


class StudyError(Exception):
    """What the user can correct: one line for each problem."""


def seeds_of(module, size):
    """The usual number of runs of a row."""
    return getattr(module, "SEEDS", {}).get(size, 3 if size == "full" else 1)


def parser_of(name, module):
    parser = argparse.ArgumentParser(
        prog=f"jobs/study-{name}.sh", description=module.ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", required=True, metavar="PATH", help="the source file or folder, as the text above says"
    )
    if not hasattr(module, "OWN_MODELS"):
        parser.add_argument(
            "--model",
            default="",
            metavar="FOLDER|SIZES",
            help="a Hugging Face folder with weights and vocabulary, or sizes of a model from scratch, for example"
            " layers=2,hidden=128,heads=2 (the default of tiny and small); full needs it",
        )
    parser.add_argument(
        "--size",
        choices=SIZES,
        default="full",
        help="full: as published; small: minutes on a small machine; tiny: a trial",
    )
    parser.add_argument(
        "--ranks", type=int, default=0, metavar="N", help="MPI ranks of the parallel rows (default: as published)"
    )
    parser.add_argument(
        "--device", choices=("cpu", "gpu"), default="", help="the build that runs (default: the one that is found)"
    )
    seeds = {size: seeds_of(module, size) for size in SIZES}
    parser.add_argument(
        "--seeds",
        type=int,
        default=0,
        metavar="N",
        help="runs of each row (default: " + ", ".join(f"{count} of {size}" for size, count in seeds.items()) + ")",
    )
    parser.add_argument(
        "--only", default="", metavar="REGEX", help="only the rows whose names match, and what they need"
    )
    parser.add_argument(
        "--slurm",
        nargs="?",
        const="",
        default=None,
        metavar="OPTIONS",
        help="submit to Slurm: arrays of the rows and a last job that reports; --slurm='--account=A --time=4:00:00' has"
        " options of sbatch",
    )
    parser.add_argument("--output", default=f"study-{name}", metavar="FOLDER", help=f"default: study-{name}")
    parser.add_argument("--report-only", action="store_true", help="only make the report of the runs that exist")
    if hasattr(module, "add_options"):
        module.add_options(parser)
    return parser


@dataclass
class Options:
    data: pathlib.Path
    output: pathlib.Path
    size: str
    ranks: int
    seeds: int
    model: dict  # the table [model] of --model: "pretrained", or sizes; empty if the study has other options for models
    vocabulary: str  # folder of the pretrained model; "": a vocabulary is trained on the texts
    gpu: bool
    has_library: bool  # for matrix products

    @property
    def compute(self):
        """Mixed precision on GPUs, where it is fast."""
        return "bf16" if self.gpu else "fp32"

    @property
    def sizes(self):
        """Of the model of --model, also if it is a folder."""
        return self.model if self.from_scratch else sizes_of_folder(self.model["pretrained"], "--model")

    @property
    def from_scratch(self):
        return "pretrained" not in self.model


SIZE_KEYS = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "intermediate": "intermediate_size",
    "positions": "max_position_embeddings",
}
SCRATCH = {"tiny": "layers=1,hidden=32,heads=2", "small": "layers=2,hidden=128,heads=2"}


def sizes_of(text, keys, needed, option, problems):
    """{name: number} of KEY=NUMBER,…"""
    sizes, known = {}, len(problems)
    for part in text.split(","):
        key, _, value = part.partition("=")
        if key not in keys or not value.isdigit() or int(value) < 1:
            problems.append(
                f"{option}: '{part}' is no size; there are {', '.join(keys)}, each with a whole number above 0"
            )
        else:
            sizes[key] = int(value)
    for key in needed:
        if key not in sizes and len(problems) == known:
            problems.append(f"{option} {text}: {key} is missing")
    return sizes


def model_of(text, default, problems, option="--model"):
    """The table [model] and the vocabulary of an option that names a folder or sizes; `default` are sizes, or ""."""
    if not text and not default:
        problems.append(f"--size full needs {option}: a Hugging Face folder with the published model, or sizes")
        return {}, ""
    text = text or default
    folder = pathlib.Path(text).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            problems.append(f"{option} {text}: the folder has no config.json; give the folder of a Hugging Face model")
        return {"pretrained": str(folder.resolve())}, str(folder.resolve())
    if "=" not in text:
        problems.append(f"{option} {text}: there is no such folder; sizes look like {SCRATCH['small']}")
        return {}, ""
    known = len(problems)
    model = {
        SIZE_KEYS[key]: value
        for key, value in sizes_of(text, SIZE_KEYS, ("layers", "hidden", "heads"), option, problems).items()
    }
    if len(problems) == known:
        model.setdefault("intermediate_size", 4 * model["hidden_size"])
        model.setdefault("max_position_embeddings", 512)
    return model, ""


def config_of(folder, option):
    """The config.json of a Hugging Face folder."""
    try:
        config = json.loads((pathlib.Path(folder) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise StudyError(f"{option} {folder}: its config.json cannot be read: {problem}") from None
    if not isinstance(config, dict) or "model_type" not in config:
        raise StudyError(f"{option} {folder}: its config.json has no model_type")
    return config


DISTILBERT_SIZES = {  # names of the sizes in config.json, and those of DistilBERT
    "hidden_size": "dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "intermediate_size": "hidden_dim",
    "max_position_embeddings": "max_position_embeddings",
}


def sizes_of_folder(folder, option):
    """The table [model] of a model from scratch with the sizes of a folder's."""
    config, sizes = config_of(folder, option), {}
    for name, other in DISTILBERT_SIZES.items():
        sizes[name] = config.get(name, config.get(other))
        if not isinstance(sizes[name], int):
            raise StudyError(f"{option} {folder}: its config.json has no whole number {name}")
    return {"family": config["model_type"], **sizes}


def program(name):
    found = shutil.which(name)
    if found is None:
        raise StudyError(f"{name} is not on PATH and not built: run jobs/build.sh first")
    return found


def options_of(given, module):
    """The options and all problems that they have."""
    problems = []
    data = pathlib.Path(given.data).expanduser()
    if not data.exists():
        problems.append(f"--data {given.data}: there is no such file or folder")
    if given.ranks < 0 or given.seeds < 0:
        problems.append("--ranks and --seeds are whole numbers above 0")
    own = hasattr(module, "OWN_MODELS")
    model, vocabulary = ({}, "") if own else model_of(given.model, SCRATCH.get(given.size, ""), problems)
    if given.slurm is not None and shutil.which("sbatch") is None:
        problems.append("--slurm: there is no sbatch on PATH; without --slurm the study runs on this machine")
    try:
        re.compile(given.only)
    except re.error as error:
        problems.append(f"--only {given.only}: {error}")
    version = subprocess.run([program("bert_hpc"), "--version"], capture_output=True, text=True, check=False).stdout
    gpu = re.search(r"^ *build +CPU", version, re.MULTILINE) is None
    if given.device and (given.device == "gpu") != gpu:
        problems.append(
            f"--device {given.device}: the bert_hpc on PATH is the {'GPU' if gpu else 'CPU'} build"
            f" ({program('bert_hpc')}); load the module of the other, or put it first on PATH"
        )
    return (
        Options(
            data.resolve(),
            pathlib.Path(given.output).expanduser().resolve(),
            given.size,
            given.ranks,
            given.seeds or seeds_of(module, given.size),
            model,
            vocabulary,
            gpu,
            re.search(r"oneDNN|BLAS", version) is not None,
        ),
        problems,
    )

#!/usr/bin/env python3
"""Essay scoring with a pretrained model, as input/ielts_prep.toml and input/ielts.toml do it: several seeds in each
precision, and the median R² of the validation data.

    python3 ielts.py PRETRAINED CSV [--build BUILD] [--ranks 2] [--threads 1] [--seeds 1 2 3] [--compute fp32 bf16]
                     [--set table.key=VALUE]... [--folder DIR]

  PRETRAINED  the Hugging Face folder of a BERT model with its vocab.txt: MiniLM-L6, bert-base-uncased, …
  CSV         the IELTS writing data set, with the columns Question, Essay and Overall
  --build     where bert_hpc and bert_hpc_prep are (default: on PATH); the build folder or an installation's bin
  --set       further keys of input/ielts.toml, as bert_hpc takes them: --set task.standardize=false
  --folder    keep shards and runs there (default: a temporary folder, removed at the end)

R² is that of the model that a run keeps, the one of the epoch with the smallest validation error. The test data's R², of
which no choice is made, stands beside it. The aim is a median of more than 0.18. Exit status: 0 measured, 1 a
program failed, 77 the folder, the data or a program is missing.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

INPUT = pathlib.Path(__file__).resolve().parents[2] / "input"
AIM = 0.18


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pretrained", type=pathlib.Path)
    parser.add_argument("csv", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--compute", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--set", action="append", default=[], dest="settings")
    parser.add_argument("--folder", type=pathlib.Path)
    return parser.parse_args()


def call(command, threads):
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), OMP_PROC_BIND="false")
    for name, value in {"ALLOW_RUN_AS_ROOT": "1", "ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                        "MCA_rmaps_base_oversubscribe": "1", "MCA_hwloc_base_binding_policy": "none"}.items():
        environment.setdefault(f"OMPI_{name}", value)
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with status {done.returncode}:\n{done.stderr[-2000:]}")


def overrides(settings):
    return [word for text in settings for word in ("--set", text)]


def measure(options, programs, folder, compute, seed):
    """R² of the kept model: of the validation and of the test data."""
    import h5py

    directory = folder / f"{compute}-{seed}"
    settings = [f'run.directory="{directory}"', f"run.seed={seed}", f'model.pretrained="{options.pretrained}"',
                f'precision.compute="{compute}"', 'log.progress="lines"']
    settings += [f'data.{split}=["{folder}/shards/{split}-*.h5"]' for split in ("train", "validation", "test")]
    call(["mpirun", "-n", str(options.ranks), programs["bert_hpc"], INPUT / "ielts.toml", "--overwrite",
          *overrides(settings + options.settings)], options.threads)
    with h5py.File(directory / "metrics.h5") as file:
        errors, found = (file[f"evaluations/validation/{name}"][()] for name in ("rmse", "r2"))
        return float(found[errors.argmin()]), float(file["evaluations/test/r2"][-1])


def run(options, programs, folder):
    settings = [f'source.files=["{options.csv}"]', f'tokenizer.vocabulary="{options.pretrained}"',
                f'output.directory="{folder}/shards"']
    call([programs["bert_hpc_prep"], INPUT / "ielts_prep.toml", *overrides(settings)], options.threads * options.ranks)
    for compute in options.compute:
        validation = []
        for seed in options.seeds:
            kept, test = measure(options, programs, folder, compute, seed)
            validation.append(kept)
            print(f"{compute}, seed {seed}: validation R² {kept:.3f}, test R² {test:.3f}", flush=True)
        median = statistics.median(validation)
        print(f"{compute}: median validation R² {median:.3f} (aim: more than {AIM})", flush=True)
    return 0


def main():
    options = parse_options()
    options.pretrained, options.csv = options.pretrained.resolve(), options.csv.resolve()
    where = str(options.build.resolve()) if options.build else None
    programs = {name: shutil.which(name, path=where) for name in ("bert_hpc", "bert_hpc_prep")}
    programs["mpirun"] = shutil.which("mpirun")
    missing = [name for name, path in programs.items() if path is None]
    missing += [str(path) for path in (options.pretrained / "config.json", options.csv) if not path.exists()]
    if missing:
        print(f"skipped: {', '.join(missing)} not found")
        return 77
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
        return run(options, programs, options.folder.resolve())
    with tempfile.TemporaryDirectory() as folder:
        return run(options, programs, pathlib.Path(folder))


if __name__ == "__main__":
    sys.exit(main())

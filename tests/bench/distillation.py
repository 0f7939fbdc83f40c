#!/usr/bin/env python3
"""Does a teacher help? A student of 2 x 128 from scratch learns TREC's question types with a teacher and without one, with several
seeds; the teacher is a pretrained model that is fine-tuned first.

    python3 distillation.py PRETRAINED QUESTIONS [--build BUILD] [--seeds 1 2 3 4 5] [--losses kl] [--temperature 3] [--alpha 0.7]
                            [--folder DIR]

  PRETRAINED  the Hugging Face folder of the teacher's start, a BERT model with its vocab.txt: MiniLM-L6, bert-base-uncased, …
  QUESTIONS   TREC's train_5500.label
  --build     where bert_hpc and bert_hpc_prep are (default: on PATH)
  --folder    keep shards and runs there; runs that are finished are not repeated (default: a temporary folder, removed at the end)

One process trains each model. The accuracies are those of the test split by the model of the epoch with the best validation
accuracy. Prints a Markdown table. Exit status: 0 measured, 1 a program failed, 77 the folder, the data or a program is missing.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

INPUT = pathlib.Path(__file__).resolve().parents[2] / "input/trec_prep.toml"
SMALL = {"family": "bert", "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512,
         "max_position_embeddings": 64}


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pretrained", type=pathlib.Path)
    parser.add_argument("questions", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--losses", nargs="+", default=["kl"])
    parser.add_argument("--temperature", type=float, default=3.0)
    parser.add_argument("--alpha", type=float, default=0.7)
    parser.add_argument("--folder", type=pathlib.Path)
    return parser.parse_args()


def call(program, path, *arguments):
    done = subprocess.run([program, path, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{program} {path} ended with status {done.returncode}:\n{done.stderr[-2000:]}")


def prepare(program, options, folder):
    changed = {"source.files": [str(options.questions)], "split.train": 0.6, "split.validation": 0.1, "split.test": 0.3, "split.stratify": True,
               "tokenizer.vocabulary": str(options.pretrained), "output.directory": str(folder / "shards")}
    call(program, INPUT, *(part for key, value in changed.items() for part in ("--set", f"{key}={json.dumps(value)}")))


def accuracy(program, folder, name, model, rate, epochs, seed=1, distill=None):
    """Trains a model unless it is there; its accuracy on the test split."""
    import h5py

    if not (folder / name / "model/model.safetensors").exists():
        tables = {
            "run": {"directory": str(folder / name), "seed": seed}, "model": model, "task": {"name": "classification"},
            "data": {split: [f"{folder}/shards/{split}-*.h5"] for split in ("train", "validation", "test")},
            "batch": {"global": 32}, "optimizer": {"learning_rate": rate},
            "schedule": {"name": "linear", "warmup_ratio": 0.1, "epochs": epochs},
            "evaluation": {"every_epochs": 1, "best": "accuracy"}} | ({"distill": distill} if distill else {})
        path = folder / f"{name}.toml"
        path.write_text("".join(f"[{table}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
                                for table, keys in tables.items()))
        call(program, path)
    with h5py.File(folder / name / "metrics.h5") as file:
        return float(file["evaluations/test/accuracy"][-1])


def row(name, values):
    spread = f"{statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"| {name} | {statistics.mean(values):.4f} | {spread} | {', '.join(f'{value:.4f}' for value in values)} |"


def measure(options, programs, folder):
    if not (folder / "shards").exists():
        prepare(programs["bert_hpc_prep"], options, folder)
    of_teacher = accuracy(programs["bert_hpc"], folder, "teacher", {"pretrained": str(options.pretrained)}, 5e-5, 3)
    distill = {"teacher": str(folder / "teacher/model"), "losses": options.losses, "alpha": options.alpha}
    if "kl" in options.losses:
        distill["temperature"] = options.temperature
    alone, beside = [], []
    for seed in options.seeds:
        alone.append(accuracy(programs["bert_hpc"], folder, f"alone-{seed}", SMALL, 5e-4, 6, seed))
        beside.append(accuracy(programs["bert_hpc"], folder, f"beside-{seed}", SMALL, 5e-4, 6, seed, distill))
    differences = [b - a for a, b in zip(alone, beside, strict=True)]
    print("| model | accuracy | standard deviation | of each seed |\n|---|---:|---:|---|")
    print("\n".join([row("teacher", [of_teacher]), row("student alone", alone), row("student with the teacher", beside), row("difference", differences)]))
    if len(differences) > 1:
        print(f"\nstandard error of the mean difference: {statistics.stdev(differences) / len(differences) ** 0.5:.4f}")


def main():
    options = parse_options()
    options.pretrained, options.questions = options.pretrained.resolve(), options.questions.resolve()
    where = str(options.build.resolve()) if options.build else None
    programs = {name: shutil.which(name, path=where) for name in ("bert_hpc", "bert_hpc_prep")}
    missing = [name for name, path in programs.items() if path is None]
    missing += [str(path) for path in (options.pretrained / "config.json", options.questions) if not path.exists()]
    if missing:
        print(f"skipped: {', '.join(missing)} not found")
        return 77
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
        measure(options, programs, options.folder.resolve())
    else:
        with tempfile.TemporaryDirectory() as folder:
            measure(options, programs, pathlib.Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())

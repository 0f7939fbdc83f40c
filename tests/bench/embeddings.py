#!/usr/bin/env python3
"""Mode embed: bytes of a text by type and compression, and its rate beside that of mode evaluate on the same texts.

    python3 embeddings.py bytes MODEL SHARDS… [--build BUILD]
    python3 embeddings.py rate MODEL SHARDS… [--build BUILD] [--ranks 1] [--rounds 2]

MODEL: a Hugging Face folder of a BERT model, e.g. all-MiniLM-L6-v2 or bert-base-uncased; SHARDS: files that bert_hpc_prep made with its
vocabulary for classification. `bytes` embeds them once in each type, pooled (cls) and by token, with and without compression, and also prints what
the same numbers take as text (fp32 with 9 digits, as numpy.savetxt writes them). `rate` evaluates and embeds them by turns, after a training of one
step that gives MODEL an output layer; start-up is subtracted, as the time of a run on the shortest of the files. cls is compared with an
evaluation of classification, whose last block computes first tokens alone, as does cls; mean and tokens, whose last block computes all tokens, with the
same rate times the share of operations that this leaves out. Times are processor seconds (user and system, of all ranks), which other programs on the
machine hardly change, and wall seconds; the best round counts. Prints Markdown tables. Exit status: 0 measured, 1 a program failed.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import h5py

TYPES = ("fp32", "fp16", "bf16", "int8")


def tables(**sections):
    return "".join(f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in section.items()) for name, section in sections.items())


class Program:
    """Runs bert_hpc on inputs in a folder of its own."""

    def __init__(self, folder, build, ranks):
        self.folder, self.program, self.ranks = pathlib.Path(folder), str(pathlib.Path(build).resolve() / "bert_hpc"), ranks

    def run(self, name, **sections):
        """Wall seconds and processor seconds of a run into FOLDER/NAME."""
        directory = self.folder / name
        path = self.folder / "input.toml"
        sections["run"] = {"directory": str(directory)} | sections.get("run", {})
        path.write_text(tables(**sections), encoding="utf-8")
        command = ["mpirun", "-n", str(self.ranks), self.program, str(path)] if self.ranks > 1 else [self.program, str(path)]
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, OMP_NUM_THREADS="1"), check=False)
        wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}\n{path.read_text()}")
        return wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    def embed(self, name, model, shards, **keys):
        seconds = self.run(name, run={"mode": "embed"}, model={"pretrained": str(model)}, data={"test": shards}, embed=keys)
        return seconds, sorted((self.folder / name / "embeddings").glob("test-*.h5"))

    def forget(self, *names):
        for name in names:
            subprocess.run(["rm", "-rf", str(self.folder / name)], check=True)


def counts(shards):
    sequences = tokens = 0
    for path in shards:
        with h5py.File(path) as file:
            sequences += len(file["offsets"]) - 1
            tokens += int(file["offsets"][-1])
    return sequences, tokens


def text_bytes(paths):
    """Bytes of the same numbers as text: a sign, 9 digits, an exponent and a blank each (numpy.savetxt with "%.9g"), by a sample."""
    total = 0.0
    for path in paths:
        with h5py.File(path) as file:
            data = file["embeddings"]
            sample = data[:min(len(data), 2000)]
            total += sum(len("%.9g " % x) for row in sample for x in row) / len(sample) * len(data)
    return total


def measure_bytes(program, model, shards):
    sequences, tokens = counts(shards)
    print(f"{sequences:,} texts, {tokens:,} tokens ({tokens / sequences:.1f} a text); file bytes, without labels' few\n")
    print("| pooling | type | compression | bytes a text | of fp32 | of the same numbers as text |")
    print("|---|---|---|---:|---:|---:|")
    for pooling in ("cls", "tokens"):
        whole = as_text = 0.0
        for kind in TYPES:
            for compression in ("none", "gzip"):
                _, paths = program.embed("bytes", model, shards, pooling=pooling, type=kind, compression=compression)
                size = sum(path.stat().st_size for path in paths)
                if kind == "fp32" and compression == "none":
                    whole, as_text = size, text_bytes(paths)
                print(f"| {pooling} | {kind} | {compression} | {size / sequences:,.0f} | {size / whole:.2f} | {size / as_text:.2f} |", flush=True)
                program.forget("bytes")
        print(f"| {pooling} | text | none | {as_text / sequences:,.0f} | {as_text / whole:.2f} | 1 |")


def all_tokens_share(model):
    """Operations of an evaluation, whose last block computes all but keys and values for first tokens alone, over those of all tokens,
    without attention's products."""
    config = json.loads((model / "config.json").read_text())
    layers, hidden, inner = config["num_hidden_layers"], config["hidden_size"], config["intermediate_size"]
    block = 4 * hidden * hidden + 2 * hidden * inner
    return ((layers - 1) * block + 2 * hidden * hidden) / (layers * block)


def measure_rate(program, base, shards, rounds):
    shortest = min(shards, key=lambda path: counts([path]))
    longer = [path for path in shards if path != shortest]
    if not longer:
        sys.exit("rate needs two shards or more: start-up is the time on the shortest of them")
    head = {"model": {"pretrained": str(base)}, "task": {"name": "classification"}}
    program.run("tuned", data={"train": longer}, batch={"global": 16}, optimizer={"learning_rate": 1e-5}, schedule={"steps": 1}, **head)
    model = program.folder / "tuned/model"
    head["model"] = {"pretrained": str(model)}

    def evaluate(data):
        return program.run("evaluated", run={"mode": "evaluate"}, data={"test": data}, **head)

    kinds = {"evaluate": evaluate}
    for name, keys in (("cls", {"pooling": "cls"}), ("mean", {"pooling": "mean"}), ("tokens fp32", {"pooling": "tokens"}),
                       ("tokens fp16", {"pooling": "tokens", "type": "fp16"}),
                       ("tokens fp16 gzip", {"pooling": "tokens", "type": "fp16", "compression": "gzip"})):
        kinds[name] = lambda data, keys=keys: program.embed("embedded", model, data, **keys)[0]
    best = {}
    for _ in range(rounds):
        for name, run in kinds.items():
            for part, data in (("start", [shortest]), ("all", [shortest, *longer])):
                seconds = run(data)
                program.forget("evaluated", "embedded")
                best[name, part] = [min(a, b) for a, b in zip(seconds, best.get((name, part), seconds))]
    _, tokens = counts(longer)
    share = all_tokens_share(model)
    print(f"{program.ranks} ranks of a thread, {tokens:,} tokens, best of {rounds} rounds; the last block of an evaluation leaves {share:.3f} of all operations\n")
    print("| mode | processor s | wall s | tokens/s by wall | of inference, processor time | by wall |")
    print("|---|---:|---:|---:|---:|---:|")
    base_wall, base_cpu = (best["evaluate", "all"][i] - best["evaluate", "start"][i] for i in range(2))
    for name in kinds:
        wall, cpu = (best[name, "all"][i] - best[name, "start"][i] for i in range(2))
        ideal = 1 if name in ("evaluate", "cls") else 1 / share
        print(f"| {name} | {cpu:.2f} | {wall:.2f} | {tokens / wall:,.0f} | {base_cpu * ideal / cpu:.2f} | {base_wall * ideal / wall:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["bytes", "rate"])
    parser.add_argument("model", type=pathlib.Path, metavar="MODEL")
    parser.add_argument("shards", nargs="+", metavar="SHARDS")
    parser.add_argument("--build", default="build")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    shards = [str(pathlib.Path(path).resolve()) for path in options.shards]
    with tempfile.TemporaryDirectory() as folder:
        program = Program(folder, options.build, options.ranks)
        if options.what == "bytes":
            measure_bytes(program, options.model.resolve(), shards)
        else:
            measure_rate(program, options.model.resolve(), shards, options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())

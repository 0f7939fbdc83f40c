#!/usr/bin/env python3
"""What more data cost a run before and while it trains: generated text of several sizes is prepared, and a tiny model (2 blocks of
128) trains some steps on it.

    python3 data.py [--build DIR] [--megabytes 50 1000] [--copies 1] [--shards 0] [--ranks 1 2] [--steps 200] [--keep FOLDER]
                    [--table FILE] [--picture FILE] [--compression none] [--set table.key=VALUE]...

For each size of the text: prep's time beside that of its tokenizing, its memory without mapped files (the largest seen), and the size
of the shards. For each number of ranks: when the run was ready for its first step, the memory of the node's ranks together (PSS, the
largest sum seen), the share of the time that the slowest rank waited for data, milliseconds a step, and what the ranks read from files
(rchar) beside the shards' size. --copies N also trains on N copies of the shards of the largest text. --shards N also trains
on the smallest text, cut into about N shards. --keep keeps text and shards in a folder, and uses what the folder already has. Files that were just written lie in the page cache: nothing here waits for a disk.
Exit status: 0 measured, 1 a program failed.
"""

import argparse
import csv
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import h5py

UNITS = {"ms": 1e-3, "s": 1, "min": 60, "h": 3600}
COLUMNS = ("tokens", "text_mb", "shards", "shards_mb", "prep_s", "tokenizing_s", "prep_mb", "ranks", "ready_s", "node_mb", "waited_share", "step_ms",
           "read_mb")


def seconds(text):
    """Of "2 min 57 s"."""
    return sum(float(number) * UNITS[unit] for number, unit in re.findall(r"([\d.]+) (ms|s|min|h)\b", text))


def write_text(path, megabytes):
    """Lines of frequent and rare words, cut from some thousand."""
    draw = random.Random(1)
    words = ["".join(draw.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(draw.randint(2, 9))) for _ in range(20000)]
    weights = [1 / (index + 10) for index in range(len(words))]
    lines = [" ".join(draw.choices(words, weights, k=draw.randint(25, 50))) for _ in range(4000)]
    left = megabytes * 1_000_000
    with open(path, "w") as file:
        file.write("text\tlabel\n")
        while left > 0:
            first, second = draw.choice(lines), draw.choice(lines)
            at = draw.randrange(10, len(first))
            left -= file.write(f"{first[:at]} {second[at:]}\t{draw.randrange(4)}\n")


def write_toml(path, tables):
    path.write_text("".join(f"[{table}]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items()) for table, keys in tables.items()))


def prepare(folder, build, megabytes, compression, shard_tokens=1 << 24, name="shards"):
    """Prep's figures; what is in the folder already is kept."""
    shards, log = folder / f"{name}_{megabytes}", folder / f"prep_{name}_{megabytes}.log"
    if not log.exists():
        text = folder / f"{megabytes}.tsv"
        if not text.exists():
            write_text(text, megabytes)
        shutil.rmtree(shards, ignore_errors=True)
        write_toml(folder / f"prep_{megabytes}.toml", {
            "source": {"format": '"tsv"', "files": f'["{text}"]', "text": '"text"', "label": '"label"'}, "split": {"train": 1},
            "tokenizer": {"train_size": 8000, "max_tokens": 64}, "task": {"name": '"classification"'},
            "output": {"directory": f'"{shards}"', "compression": f'"{compression}"', "shard_tokens": shard_tokens}})
        begin = time.monotonic()
        with open(folder / f"prep_{megabytes}.out", "w") as shown:
            process = subprocess.Popen([build / "bert_hpc_prep", folder / f"prep_{megabytes}.toml"], stdout=shown)
        memory = 0.0
        while process.poll() is None:
            memory = max(memory, number_in(pathlib.Path(f"/proc/{process.pid}/status"), r"RssAnon:\s+(\d+)", 1024))
            time.sleep(0.01)
        whole, output = time.monotonic() - begin, (folder / f"prep_{megabytes}.out").read_text()
        if process.returncode:
            sys.exit(f"bert_hpc_prep failed:\n{output}")
        log.write_text(f"{output}\nwhole time {whole:.2f} s, {memory:.0f} MB\n")
    output = log.read_text()
    return shards, {"text_mb": megabytes, "prep_s": seconds(re.search(r"whole time (.*),", output)[1]),
                    "tokenizing_s": seconds(re.search(r"tokenizing ([^(]*)", output)[1]), "prep_mb": float(re.search(r", (\d+) MB", output)[1])}


def tokens_of(files):
    tokens = 0
    for file in files:
        with h5py.File(file) as opened:
            tokens += int(opened.attrs["tokens"])
    return tokens


def ranks_of(path):
    """Processes of the run with this input."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"/bert_hpc") and str(path).encode() in words:
            found.append(entry)
    return found


def number_in(path, pattern, scale):
    try:
        return float(re.search(pattern, path.read_text())[1]) / scale
    except (OSError, TypeError):  # the process ends
        return 0.0


def train(folder, options, patterns, ranks):
    """The run's figures."""
    path = folder / "train.toml"
    shutil.rmtree(folder / "run", ignore_errors=True)
    write_toml(path, {
        "run": {"mode": '"train"', "directory": f'"{folder}/run"'},
        "model": {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512, "max_position_embeddings": 64},
        "task": {"name": '"classification"'}, "data": {"train": "[" + ", ".join(f'"{pattern}"' for pattern in patterns) + "]"},
        "batch": {"global": 32 * ranks}, "optimizer": {"learning_rate": 1e-3}, "schedule": {"steps": options.steps},
        "log": {"progress": '"none"', "every_steps": 1}})
    command = [*(["mpirun", "-n", str(ranks)] if ranks > 1 else []), options.build / "bert_hpc", path,
               *(word for setting in options.set for word in ("--set", setting))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    memory, read = 0.0, {}
    while process.poll() is None:
        found = ranks_of(path)
        memory = max(memory, sum(number_in(entry / "smaps_rollup", r"\nPss: +(\d+)", 1024) for entry in found))
        for entry in found:
            read[entry] = max(read.get(entry, 0.0), number_in(entry / "io", r"rchar: (\d+)", 1e6))
        time.sleep(0.02)
    output = process.stdout.read()
    if process.returncode:
        sys.exit(f"bert_hpc failed:\n{output}")
    with h5py.File(folder / "run/metrics.h5") as file:
        names = [name.decode() for name in file["timers/name"][:]]
        waited = float(file["timers/seconds_max"][names.index("data loading")]) if "data loading" in names else 0.0
        share = waited / float(file.attrs["total_training_seconds"])
        median = statistics.median(file["steps/seconds"][:])
    return {"ranks": ranks, "ready_s": seconds(re.search(r"ready after (.*)", output)[1]), "node_mb": memory, "waited_share": share,
            "step_ms": 1e3 * median, "read_mb": sum(read.values())}


def shown(value):
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def draw(path, rows):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
    for axis, column, label in zip(axes, ("ready_s", "node_mb", "step_ms"), ("ready after, s", "memory of the node, MB", "median step, ms"), strict=True):
        for ranks in sorted({row["ranks"] for row in rows}):
            own = [row for row in rows if row["ranks"] == ranks]
            axis.plot([row["tokens"] for row in own], [row[column] for row in own], "o-", label=f"{ranks} rank{'s' * (ranks > 1)}")
        axis.set(xscale="log", xlabel="tokens", ylabel=label, ylim=(0, None))
    axes[0].legend(frameon=False)
    figure.savefig(path, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--megabytes", type=int, nargs="+", default=[50, 1000])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--shards", type=int, default=0)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--compression", choices=("none", "gzip"), default="none")
    parser.add_argument("--set", action="append", default=[])
    for name in ("keep", "table", "picture"):
        parser.add_argument(f"--{name}", type=pathlib.Path)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory(prefix="bert_hpc_data_") as name:
        folder = options.keep or pathlib.Path(name)
        folder.mkdir(exist_ok=True)
        cases = []
        if options.shards:
            least = min(options.megabytes)
            tokens = tokens_of(prepare(folder, options.build, least, options.compression)[0].glob("train-*.h5"))
            many, _ = prepare(folder, options.build, least, options.compression, max(1, tokens // options.shards), "many")
            cases.append(([f"{many}/train-*.h5"], {}))
        for megabytes in options.megabytes:
            shards, figures = prepare(folder, options.build, megabytes, options.compression)
            cases.append(([f"{shards}/train-*.h5"], figures))
        if options.copies > 1:
            for copy in range(1, options.copies):
                shutil.copytree(shards, folder / f"copy_{copy}", dirs_exist_ok=True)
            cases.append(([f"{shards}/train-*.h5", *(f"{folder}/copy_{copy}/train-*.h5" for copy in range(1, options.copies))], {}))
        rows = []
        for patterns, figures in cases:
            files = [file for pattern in patterns for file in pathlib.Path(pattern).parent.glob("train-*.h5")]
            size = {"tokens": tokens_of(files), "shards": len(files), "shards_mb": sum(file.stat().st_size for file in files) / 1e6}
            for ranks in options.ranks:
                rows.append(size | figures | train(folder, options, patterns, ranks))
                print(", ".join(f"{column} {shown(rows[-1][column])}" for column in COLUMNS if column in rows[-1]), flush=True)
        if options.table:
            with open(options.table, "w", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS)
                writer.writeheader()
                writer.writerows(rows)
        if options.picture:
            draw(options.picture, rows)


if __name__ == "__main__":
    main()

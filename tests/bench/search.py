#!/usr/bin/env python3
"""Exact search beside sentence-transformers' util.semantic_search, by turns in one run on the same cores.

    python3 search.py [--documents 200000] [--queries 1000] [--columns 384] [--top-k 100] [--build BUILD] [--python PYTHON] [--rounds 3]
                      [--threads T]

Documents and queries are random words, embedded by a model of one block with random weights. --python: a Python with
sentence-transformers (default: this one). Our time is from the first document that is read to the ranking, theirs that of
semantic_search on tensors in memory, which are normalized already. A program's speed is its best round. Prints a Markdown
table, and how many of the documents found are the same. Exit status: 0 measured, 1 a program failed.
"""

import argparse
import json
import os
import pathlib
import random
import sys
import tempfile
import time

import h5py
import numpy as np
from text_embedding import run

WORDS = [f"{a}{b}" for a in "ba be bi bo bu da de di do du fa fe fi fo fu".split() for b in "la le li lo lu ma me mi mo mu na ne".split()]


def rows_of(folder):
    parts = []
    for path in sorted((folder / "embeddings").glob("test-*.h5")):
        with h5py.File(path) as file:
            parts.append(file["embeddings"][:])
    return np.concatenate(parts)


def their_side(options):
    """Prints the seconds of each round and the documents found."""
    import torch
    from sentence_transformers import util

    torch.set_num_threads(options.threads)
    queries, corpus = (util.normalize_embeddings(torch.from_numpy(rows_of(options.theirs / name))) for name in ("queries", "corpus"))
    seconds = []
    for _ in range(options.rounds):
        begin = time.perf_counter()
        found = util.semantic_search(queries, corpus, top_k=options.top_k, score_function=util.dot_score)
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"seconds": seconds, "found": [[hit["corpus_id"] for hit in hits] for hits in found]}))


def make(options, folder):
    """Embeddings of documents and queries in FOLDER/corpus and FOLDER/queries."""
    draw = random.Random(1)
    for name, count in (("corpus", options.documents), ("queries", options.queries)):
        (folder / f"{name}.tsv").write_text("text\n" + "".join(" ".join(draw.choices(WORDS, k=6)) + "\n" for _ in range(count)))
    (folder / "pairs.tsv").write_text("anchor\tpositive\n" + "".join(f"{a}\t{a} {b}\n" for a, b in zip(WORDS, reversed(WORDS))))

    def prepare(name, source, tokenizer):
        (folder / f"{name}_prep.toml").write_text(f"""
source = {{format = "tsv", {source}}}
split = {{train = 1.0}}
tokenizer = {{{tokenizer}, max_tokens = 16}}
task = {{name = "embedding"}}
output = {{directory = "{folder}/{name}_shards"}}
""")
        run([options.build / "bert_hpc_prep", folder / f"{name}_prep.toml"], options.threads)

    prepare("pairs", f'files = ["{folder}/pairs.tsv"]', "train_size = 400")
    (folder / "train.toml").write_text(f"""
run = {{mode = "train", directory = "{folder}/model"}}
task = {{name = "embedding"}}
model = {{hidden_size = {options.columns}, num_hidden_layers = 1, num_attention_heads = 4, intermediate_size = 64, max_position_embeddings = 16}}
data = {{train = ["{folder}/pairs_shards/train-*.h5"]}}
optimizer = {{learning_rate = 1e-4}}
schedule = {{steps = 1}}
""")
    run([options.build / "bert_hpc", folder / "train.toml"], options.threads)
    for name in ("corpus", "queries"):
        prepare(name, f'test_files = ["{folder}/{name}.tsv"], text = "text"', f'vocabulary = "{folder}/pairs_shards"')
        (folder / f"{name}.toml").write_text(f"""
run = {{mode = "embed", directory = "{folder}/{name}"}}
model = {{pretrained = "{folder}/model/model"}}
data = {{test = ["{folder}/{name}_shards/test-*.h5"]}}
""")
        run([options.build / "bert_hpc", folder / f"{name}.toml"], options.threads)


def our_side(options, folder):
    """Seconds of the search and the documents found."""
    (folder / "search.toml").write_text(f"""
run = {{mode = "search", directory = "{folder}/found"}}
search = {{queries = ["{folder}/queries/embeddings/test-*.h5"], corpus = ["{folder}/corpus/embeddings/test-*.h5"], top_k = {options.top_k}}}
""")
    run([options.build / "bert_hpc", folder / "search.toml", "--overwrite"], options.threads)
    with h5py.File(folder / "found/metrics.h5") as file:
        seconds = float(file.attrs["total_search_seconds"])
    with h5py.File(folder / "found/search.h5") as file:
        return seconds, file["neighbours"][:].tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=200000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--columns", type=int, default=384)
    parser.add_argument("--top-k", type=int, default=100)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--theirs", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.theirs:
        return their_side(options)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make(options, folder)
        ours, theirs = [], []
        for _ in range(options.rounds):
            seconds, found = our_side(options, folder)
            ours.append(seconds)
            other = json.loads(run([options.python, __file__, "--theirs", folder, "--rounds", 1, "--threads", options.threads,
                                    "--top-k", options.top_k], options.threads).splitlines()[-1])
            theirs += other["seconds"]
    same = np.mean([len(set(a) & set(b)) / options.top_k for a, b in zip(found, other["found"])])
    work = 2e-9 * options.queries * options.documents * options.columns
    print(f"{options.queries} queries, {options.documents} documents, {options.columns} columns, top {options.top_k}, {options.threads} threads; "
          f"{100 * same:.2f}% of the documents are the same\n")
    print("| program | s | queries/s | GFLOP/s |\n|---|---:|---:|---:|")
    for program, seconds in (("bert_hpc", min(ours)), ("sentence-transformers", min(theirs))):
        print(f"| {program} | {seconds:.2f} | {options.queries / seconds:.0f} | {work / seconds:.0f} |")
    print(f"\nratio {min(theirs) / min(ours):.2f}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Training of text embeddings beside sentence-transformers, by turns in one run on the same cores.

    python3 text_embedding.py MODEL SQUAD [--sentences] [--build BUILD] [--python PYTHON] [--batch 64] [--steps 12] [--rounds 2]
                              [--threads T]

MODEL: a Hugging Face folder, e.g. all-MiniLM-L6-v2. SQUAD: SQuAD 2.0's train-v2.0.json. A pair is a question and its
paragraph, or with --sentences the sentence of the answer, in an order drawn by lot. --python: a Python with sentence-transformers (default: this one). Both train on the same rows in the order of the
file with in-batch negatives (scale 20, mean pooling, at most 128 tokens a text), clipping to norm 1 and AdamW; theirs is
MultipleNegativesRankingLoss on batches that were tokenized beforehand, padded to their longest text. A step is one
micro-batch, as theirs. The first two steps are left out. A program's speed is its best round. Prints a Markdown table of texts a second, and how far the losses of
the first step are apart: dropout is off. Exit status: 0 measured, 1 a program failed.
"""

import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

import h5py

LEFT_OUT, MAX_TOKENS = 2, 128


def pairs_of(path, sentences):
    """(question, paragraph or sentence) of the questions with an answer."""
    pairs = []
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            context = " ".join(paragraph["context"].split())
            for question in paragraph["qas"]:
                if question["answers"] and not question.get("is_impossible"):
                    answer = question["answers"][0]["text"]
                    found = [part for part in re.split(r"(?<=[.!?]) ", context) if answer in part] if sentences else [context]
                    pairs += [(" ".join(question["question"].split()), text) for text in found[:1]]
    random.Random(1).shuffle(pairs)
    return pairs


def rows_of(path):
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:]]


def write_rows(path, rows):
    path.write_text("anchor\tpositive\n" + "".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")


def their_side(options):
    """Prints the seconds of each step and the first loss."""
    import sentence_transformers
    import torch
    from sentence_transformers import losses, models

    torch.set_num_threads(options.threads)
    encoder = models.Transformer(str(options.model), max_seq_length=MAX_TOKENS)
    for module in encoder.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    width = encoder.get_embedding_dimension() if hasattr(encoder, "get_embedding_dimension") else encoder.get_word_embedding_dimension()
    model = sentence_transformers.SentenceTransformer(modules=[encoder, models.Pooling(width, pooling_mode="mean")], device="cpu")
    loss_of = losses.MultipleNegativesRankingLoss(model, scale=20.0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=True)
    rows = rows_of(options.squad)
    tokenize = getattr(model, "preprocess", None) or model.tokenize
    batches = [[tokenize([row[side] for row in rows[begin:begin + options.batch]]) for side in (0, 1)]
               for begin in range(0, len(rows), options.batch)]
    model.train()
    seconds, found = [], []
    for features in batches:
        begin = time.perf_counter()
        loss = loss_of(features, None)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"seconds": seconds, "loss": found[0]}))


def run(command, threads):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                          env=dict(os.environ, OMP_NUM_THREADS=str(threads)))
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-1500:]}\n{done.stderr[-2500:]}")
    return done.stdout


def our_side(options, folder):
    """Seconds of each step and the first loss."""
    path = folder / "train.toml"
    path.write_text(f"""
run = {{mode = "train", directory = "{folder}/run"}}
model = {{pretrained = "{options.model.resolve()}", hidden_dropout_prob = 0.0, attention_probs_dropout_prob = 0.0}}
task = {{name = "embedding", pooling = "mean"}}
data = {{train = ["{folder}/shards/train-*.h5"], order = "file"}}
batch = {{global = {options.batch}, micro_batches = 1}}
optimizer = {{learning_rate = 2e-5, max_gradient_norm = 1.0}}
schedule = {{steps = {options.steps}, name = "constant"}}
log = {{every_steps = 1}}
""")
    run([options.build / "bert_hpc", path, "--overwrite"], options.threads)
    with h5py.File(folder / "run/metrics.h5") as file:
        return {"seconds": list(file["steps/seconds"][:]), "loss": float(file["steps/loss"][0])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("squad", type=pathlib.Path)
    parser.add_argument("--sentences", action="store_true")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--theirs", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.theirs:
        return their_side(options)
    best, first = {}, {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        rows = pairs_of(options.squad, options.sentences)[:options.batch * options.steps]
        write_rows(folder / "pairs.tsv", rows)
        (folder / "prep.toml").write_text(f"""
source = {{format = "tsv", files = ["{folder}/pairs.tsv"], quotes = false}}
split = {{train = 1.0}}
tokenizer = {{vocabulary = "{options.model.resolve()}", max_tokens = {MAX_TOKENS}}}
task = {{name = "embedding"}}
output = {{directory = "{folder}/shards"}}
""")
        run([options.build / "bert_hpc_prep", folder / "prep.toml"], options.threads)
        with h5py.File(folder / "shards/train-00000.h5") as file:
            tokens = len(file["input_ids"]) / (len(file["offsets"]) - 1)
            write_rows(folder / "pairs.tsv", [rows[number] for number in file["source_index"][::2]])  # as the shard has them
        for _ in range(options.rounds):
            own = [options.python, pathlib.Path(__file__).resolve(), options.model, folder / "pairs.tsv", "--theirs", "--batch", options.batch,
                   "--steps", options.steps, "--threads", options.threads]
            for side, found in (("theirs", json.loads(run(own, options.threads).splitlines()[-1])), ("ours", our_side(options, folder))):
                seconds = found["seconds"][LEFT_OUT:]
                rate = 2 * options.batch * len(seconds) / sum(seconds)
                best[side], first[side] = max(best.get(side, 0), rate), found["loss"]
    print(f"{options.threads} threads, batches of {options.batch} rows, {tokens:.1f} tokens a text, best of {options.rounds} rounds\n")
    print("| sentence-transformers, texts/s | bert_hpc, texts/s | ratio | first loss, theirs and ours |\n|---:|---:|---:|---|")
    print(f"| {best['theirs']:.1f} | {best['ours']:.1f} | {best['ours'] / best['theirs']:.2f} | {first['theirs']:.5f}, {first['ours']:.5f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Training steps of a Bi-LSTM beside PyTorch's nn.LSTM with packed sequences, by turns in one run on the same cores.

    python3 lstm.py --bench BUILD/tests/bench_training [--python PYTHON] [--rounds R] [--threads T] [--precision fp32|bf16]
                    [--case NAME]

Both train embeddings, two Bi-LSTM layers and a linear layer with cross entropy, gradient clipping and AdamW (PyTorch's fused one),
on the same lengths (cases.py). --python: a Python with torch (default: this one). bf16: ours in bf16, PyTorch under autocast.
A program's speed is its best round. Prints a Markdown table of sequences a second. Exit status: 0 measured, 1 a program failed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import cases


def config(embedding, hidden):
    return {"model_type": "bilstm", "vocab_size": 30522, "embedding_size": embedding, "hidden_size": hidden, "num_hidden_layers": 2,
            "hidden_dropout_prob": 0.1, "classifier_dropout": 0.1, "pooling": "ends"}


def all_cases():
    return [
        cases.make_case("lstm_short", "embeddings 128, states 128, short texts, batch 64", 2.0, config(128, 128), 64, 64, cases.gloss_like, 8, 16, 4),
        cases.make_case("lstm_squad", "embeddings 256, states 256, SQuAD-like lengths, batch 32", 2.0, config(256, 256), 32, 384, cases.squad_like, 4, 4, 1),
        cases.make_case("lstm_wide", "embeddings 768, states 256, SQuAD-like lengths, batch 64", 2.0, config(768, 256), 64, 384, cases.squad_like, 2, 2, 1),
    ]


def torch_side(path, threads, precision):
    """Prints the seconds of each timed step."""
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    with open(path, encoding="utf-8") as file:
        case = json.load(file)
    sizes = case["config"]

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(sizes["vocab_size"], sizes["embedding_size"])
            self.lstm = torch.nn.LSTM(sizes["embedding_size"], sizes["hidden_size"], 2, bidirectional=True, dropout=0.1)
            self.dropout, self.classifier = torch.nn.Dropout(0.1), torch.nn.Linear(2 * sizes["hidden_size"], case["labels"])

        def forward(self, packed):
            states, (last, _) = self.lstm(packed._replace(data=self.embedding(packed.data)))
            return self.classifier(self.dropout(torch.cat([last[-2], last[-1]], dim=1)))

    model = Model().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=True)
    steps = []
    for step in cases.token_ids(case):  # packed beforehand, as a loader's workers would
        texts = [torch.tensor(ids) for ids in step]
        packed = torch.nn.utils.rnn.pack_sequence(texts, enforce_sorted=False)
        steps.append((packed, torch.arange(len(texts)) % case["labels"]))
    seconds = []
    for k in range(case["warmup"] + case["steps"]):
        packed, labels = steps[k % len(steps)]
        begin = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = torch.nn.functional.cross_entropy(model(packed).float(), labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"program": f"PyTorch {torch.__version__}", "seconds": seconds[case["warmup"]:]}))


def seconds_of(command, environment):
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        sys.exit(f"{command[0]} failed:\n{done.stderr[-2000:]}")
    return json.loads(lines[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--case")
    parser.add_argument("--torch", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.torch:
        return torch_side(options.torch, options.threads, options.precision)
    environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads))
    print(f"{options.threads} threads, {options.precision}, best of {options.rounds} rounds\n")
    print("| case | sequences of a step, mean tokens | bert_hpc, sequences/s | PyTorch, sequences/s | ratio |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for case in all_cases():
            if options.case not in (None, case["name"]):
                continue
            path = os.path.join(folder, case["name"] + ".json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(case, file)
            ours, theirs = [], []
            for _ in range(options.rounds):
                ours.append(sum(seconds_of([options.bench, "--compute", options.precision, "--case", path], environment)["seconds"]))
                own = [options.python, os.path.abspath(__file__), "--torch", path, "--threads", str(options.threads)]
                theirs.append(sum(seconds_of([*own, "--precision", options.precision], environment)["seconds"]))
            sequences = case["steps"] * case["batch"]
            tokens = sum(map(sum, case["lengths"])) / (len(case["lengths"]) * case["batch"])
            print(f"| {case['description']} | {case['batch']}, {tokens:.0f} | {sequences / min(ours):.1f} | {sequences / min(theirs):.1f} "
                  f"| {min(theirs) / min(ours):.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

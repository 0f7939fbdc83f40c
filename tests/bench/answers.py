#!/usr/bin/env python3
"""Training to answer questions against training to classify, on the same windows of the same questions: tokens a second. The
classes are whether a question can be answered. Both train in turn, or side by side, which is fair where other programs run too.

    python3 answers.py VOCABULARY JSON... [--build DIR] [--rounds R] [--steps N] [--threads N] [--batch N] [--blocks N]
                       [--hidden N] [--compute fp32|bf16] [--together]

  VOCABULARY  a WordPiece vocab.txt (uncased)
  JSON        files of SQuAD
  --together  both at once; what they do while both run counts
  --blocks, --hidden   of a model from scratch with heads of 64 columns (default: BERT-base's 12 and 768)

Prints the tokens a second of each round, without the first steps, and the median ratio. Beside it stands the ratio of the floating-point operations: the last block of a classification computes keys and values of all tokens,
but everything else of the first token of each sequence alone, where each token of an answer's window has scores. Exit status: 0
measured, 1 a program failed.
"""

import argparse
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import h5py
import numpy

from prep import environment_of_ours

WARM_UP = 5
TASKS = ("classification", "question_answering")
MAX_TOKENS = 384


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocabulary", type=pathlib.Path)
    parser.add_argument("json", nargs="+", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--blocks", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--compute", default="fp32")
    parser.add_argument("--together", action="store_true")
    return parser.parse_args()


def start(options, program, path, text):
    path.write_text(text)
    environment = environment_of_ours() | {"OMP_NUM_THREADS": str(options.threads)}
    return subprocess.Popen([options.build.resolve() / program, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


def finish(process):
    text = process.communicate()[0]
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, process.args))} ended with status {process.returncode}:\n{text[-3000:]}")


def prepare(options, folder, task):
    files = ", ".join(f'"{path.resolve()}"' for path in options.json)
    columns = 'text = "question"\ntext_pair = "context"\nlabel = "is_impossible"' if task == "classification" else ""
    finish(start(options, "bert_hpc_prep", folder / f"{task}_prep.toml", f"""
[source]
format = "squad"
files = [{files}]
{columns}
[split]
train = 1.0
[tokenizer]
vocabulary = "{options.vocabulary.resolve()}"
lowercase = true
max_tokens = {MAX_TOKENS}
doc_stride = 128
[task]
name = "{task}"
[output]
directory = "{folder}/{task}"
"""))


def lengths_of(folder, task):
    """Of each window, in the order of training."""
    lengths = []
    for path in sorted((folder / task).glob("train-*.h5")):
        with h5py.File(path) as file:
            lengths.append(numpy.diff(file["offsets"][:]))
    return numpy.concatenate(lengths)


def train(options, folder, task):
    output = folder / f"{task}_run"
    shutil.rmtree(output, ignore_errors=True)
    return start(options, "bert_hpc", folder / f"{task}.toml", f"""
[run]
directory = "{output}"
[model]
hidden_size = {options.hidden}
num_hidden_layers = {options.blocks}
num_attention_heads = {max(1, options.hidden // 64)}
intermediate_size = {4 * options.hidden}
[precision]
compute = "{options.compute}"
[task]
name = "{task}"
[data]
train = ["{folder}/{task}/train-*.h5"]
order = "file"
[batch]
global = {options.batch}
[optimizer]
learning_rate = 3e-5
[schedule]
steps = {options.steps}
[log]
every_steps = 1
progress = "none"
""")


def seconds_of(folder, task):
    with h5py.File(folder / f"{task}_run" / "metrics.h5") as file:
        return file["steps/seconds"][:]


def one_round(options, folder, tokens, number):
    """Tokens a second of each task."""
    if not options.together:
        for task in TASKS if number % 2 else TASKS[::-1]:
            finish(train(options, folder, task))
        return [statistics.median(tokens[WARM_UP:] / seconds_of(folder, task)[WARM_UP:]) for task in TASKS]
    for process in [train(options, folder, task) for task in TASKS]:
        finish(process)
    ends = [numpy.cumsum(seconds_of(folder, task)) for task in TASKS]
    both = min(end[-1] for end in ends)
    speeds = []
    for end in ends:
        last = int(numpy.searchsorted(end, both, side="right")) - 1
        speeds.append(tokens[2:last + 1].sum() / (end[last] - end[1]))  # the first two steps also plan and touch memory
    return speeds


def ratio_of_operations(options, lengths):
    """Of products, classification's by those of answers: per token and hidden² a block takes 4 for attention's weights and 8 for
    the rest; scores and their sums take 2 times length by hidden."""
    hidden, size = options.hidden, lengths.astype(float)
    block = (12 * size * hidden**2 + 2 * size**2 * hidden).sum()
    selecting = (2 * size * hidden**2 + 10 * hidden**2 + 2 * size * hidden).sum()
    return ((options.blocks - 1) * block + selecting) / (options.blocks * block)


def main():
    options = parse_options()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for task in TASKS:
            prepare(options, folder, task)
        lengths = lengths_of(folder, TASKS[0])
        if not numpy.array_equal(lengths, lengths_of(folder, TASKS[1])):
            sys.exit("the windows of both tasks differ")
        whole = lengths[:len(lengths) // options.batch * options.batch].reshape(-1, options.batch)
        tokens = numpy.resize(whole.sum(axis=1), options.steps)
        ratios = []
        for number in range(1, options.rounds + 1):
            classes, answers = one_round(options, folder, tokens, number)
            ratios.append(answers / classes)
            print(f"round {number}: classification {classes:.0f} tokens/s, question answering {answers:.0f}, ratio {ratios[-1]:.3f}", flush=True)
        print(f"question answering has {statistics.median(ratios):.3f} of classification's tokens/s (rounds: {min(ratios):.3f} to "
              f"{max(ratios):.3f}); by operations {ratio_of_operations(options, whole[:options.steps]):.3f}; {options.blocks} x "
              f"{options.hidden}, {options.compute}, batch {options.batch}, mean length {tokens.mean() / options.batch:.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

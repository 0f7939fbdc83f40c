#!/usr/bin/env python3
"""Text to tokens: bert_hpc_prep as a whole (reading, tokenizing, compressing, writing shards) against Hugging Face's fast
tokenizer alone (its encode_batch_fast on lines in memory), on the same lines and cores, in turn.

    python3 prep.py VOCABULARY TEXT... [--program BUILD/bert_hpc_prep] [--python PYTHON] [--rounds R] [--ranks N]
                    [--copies N]

  VOCABULARY  a WordPiece vocab.txt (uncased), or a tokenizer.json of any kind that both read, such as byte-level BPE
  TEXT        UTF-8 files, a sample a line
  --program   ours; runs under mpirun (default: bert_hpc_prep on PATH)
  --python    a Python with tokenizers (default: this one); it gets as many threads as ours has ranks
  --copies    how often the text is read, one copy after the other, so that start-up counts little (default 4)

Prints MB of text a second and the ratio of each round, and their median. Exit status: 0 measured, 1 a program failed,
77 a program is missing.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

THEIRS = """
import sys, time
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
if sys.argv[1].endswith(".json"):
    tokenizer = Tokenizer.from_file(sys.argv[1])
else:
    vocabulary = {line.rstrip("\\n"): i for i, line in enumerate(open(sys.argv[1], encoding="utf-8"))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", vocabulary["[SEP]"]), ("[CLS]", vocabulary["[CLS]"]))
tokenizer.enable_truncation(512)
lines = [line for line in open(sys.argv[2], encoding="utf-8").read().split("\\n") if line.strip()]
tokenizer.encode_batch_fast(lines[:1000])
begin = time.perf_counter()
tokens = sum(len(e.ids) for b in range(0, len(lines), 10000) for e in tokenizer.encode_batch_fast(lines[b:b + 10000]))
print(time.perf_counter() - begin, tokens)
"""


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocabulary")
    parser.add_argument("text", nargs="+")
    parser.add_argument("--program", default="bert_hpc_prep")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--copies", type=int, default=4)
    return parser.parse_args()


def call(command, environment):
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with status {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def environment_of_ours():
    environment = dict(os.environ, OMP_NUM_THREADS="1", OMP_PROC_BIND="false")
    for name, value in {"ALLOW_RUN_AS_ROOT": "1", "ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                        "MCA_rmaps_base_oversubscribe": "1", "MCA_hwloc_base_binding_policy": "none"}.items():
        environment.setdefault(f"OMPI_{name}", value)
    return environment


def seconds_of_ours(options, text, folder):
    shards = pathlib.Path(folder) / "shards"
    shutil.rmtree(shards, ignore_errors=True)
    path = pathlib.Path(folder) / "prep.toml"
    path.write_text(f"""
[source]
format = "text"
files = ["{text}"]
[tokenizer]
vocabulary = "{options.vocabulary}"
{"" if options.vocabulary.endswith(".json") else "lowercase = true"}
max_tokens = 512
[task]
name = "masked_lm"
[output]
directory = "{shards}"
""")
    begin = time.perf_counter()
    call(["mpirun", "-n", str(options.ranks), options.program, str(path)], environment_of_ours())
    return time.perf_counter() - begin


def seconds_of_theirs(options, text):
    environment = dict(os.environ, TOKENIZERS_PARALLELISM="true", RAYON_NUM_THREADS=str(options.ranks))
    return float(call([options.python, "-c", THEIRS, options.vocabulary, str(text)], environment).split()[0])


def main():
    options = parse_options()
    for program in (options.program, "mpirun"):
        if shutil.which(program) is None:
            print(f"skipped: {program} is not at hand")
            return 77
    if subprocess.run([options.python, "-c", "import tokenizers"], capture_output=True).returncode != 0:
        print(f"skipped: {options.python} has no tokenizers (--python names one that does)")
        return 77
    options.vocabulary = os.path.abspath(options.vocabulary)
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder) / "text.txt"
        with text.open("wb") as out:
            for _ in range(options.copies):
                for name in options.text:
                    out.write(pathlib.Path(name).read_bytes().rstrip(b"\n") + b"\n")
        megabytes = text.stat().st_size / 1e6
        for number in range(1, options.rounds + 1):
            ours = seconds_of_ours(options, text, folder)
            theirs = seconds_of_theirs(options, text)
            ratios.append(theirs / ours)
            print(f"round {number}: ours {megabytes / ours:.1f} MB/s from start to end, the fast tokenizer alone "
                  f"{megabytes / theirs:.1f} MB/s, ratio {ratios[-1]:.2f}", flush=True)
    print(f"ours is {statistics.median(ratios):.2f} times as fast (rounds: {min(ratios):.2f} to {max(ratios):.2f}); "
          f"{megabytes:.0f} MB, {options.ranks} ranks of one thread against {options.ranks} threads")
    return 0


if __name__ == "__main__":
    sys.exit(main())

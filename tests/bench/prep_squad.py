#!/usr/bin/env python3
"""SQuAD's JSON to windows ready for training: bert_hpc_prep as a whole (start, reading, tokenizing, compressing, writing shards)
against the `map` of Hugging Face datasets with a fast tokenizer (rows in memory, arrow files written), as run_qa.py prepares
them: the same windows and labels, without padding, on the same cores, in turn.

    python3 prep_squad.py VOCABULARY JSON... [--program BUILD/bert_hpc_prep] [--python PYTHON] [--rounds R] [--cores N]
                          [--copies N] [--max-tokens N] [--doc-stride N]

  VOCABULARY  a WordPiece vocab.txt (uncased)
  JSON        files of SQuAD, version 1.1 or 2.0
  --program   ours; runs under mpirun with a rank on each core (default: bert_hpc_prep on PATH)
  --python    a Python with datasets and transformers (default: this one). It maps with a process on each core, and in one
              process with a thread of the tokenizer on each core; the faster of the two counts
  --copies    how often the questions are read, under other ids (default 8: the sample becomes as many as SQuAD has)

Prints the seconds of each round and the median ratio. Both must have the same number of windows and tokens. Exit status:
0 measured, 1 a program failed or the tokens differ, 77 a program is missing.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from prep import call, environment_of_ours

THEIRS = """
import json, sys, time
import datasets, transformers
datasets.disable_progress_bars()
path, tokenizer_file, max_tokens, overlap, processes = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=tokenizer_file)
tokenizer.model_max_length = max_tokens
rows = [{"question": q["question"], "context": p["context"], "starts": [a["answer_start"] for a in q["answers"]],
         "texts": [a["text"] for a in q["answers"]]} for article in json.load(open(path, encoding="utf-8"))["data"]
        for p in article["paragraphs"] for q in p["qas"]]
source = datasets.Dataset.from_list(rows)

def windows(rows):
    made = tokenizer(rows["question"], rows["context"], truncation="only_second", max_length=max_tokens, stride=overlap,
                     return_overflowing_tokens=True, return_offsets_mapping=True, return_token_type_ids=True)
    row_of, characters = made.pop("overflow_to_sample_mapping"), made.pop("offset_mapping")
    made["start_positions"], made["end_positions"] = [], []
    for i, at in enumerate(characters):
        first = last = 0
        starts, texts = rows["starts"][row_of[i]], rows["texts"][row_of[i]]
        if starts:
            begin, end = starts[0], starts[0] + len(texts[0])
            part = made.sequence_ids(i)
            low, high = part.index(1), len(part) - 2
            if at[low][0] <= begin and at[high][1] >= end:
                first, last = low, high
                while first < high and at[first + 1][0] <= begin:
                    first += 1
                while last > low and at[last - 1][1] >= end:
                    last -= 1
        made["start_positions"].append(first)
        made["end_positions"].append(last)
    return made

tokenizer(rows[0]["question"], rows[0]["context"])
begin = time.perf_counter()
out = source.map(windows, batched=True, remove_columns=source.column_names, num_proc=processes or None, load_from_cache_file=False,
                 cache_file_name=sys.argv[6])
seconds = time.perf_counter() - begin
print(json.dumps([seconds, len(out), sum(len(ids) for ids in out["input_ids"])]))
"""


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocabulary")
    parser.add_argument("json", nargs="+")
    parser.add_argument("--program", default="bert_hpc_prep")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--copies", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=384)
    parser.add_argument("--doc-stride", type=int, default=128)
    return parser.parse_args()


def write_questions(options, path):
    """All articles, `copies` times, each time with ids of their own. Returns the number of questions."""
    articles, questions = [], 0
    for number in range(options.copies):
        for name in options.json:
            of_file = json.loads(pathlib.Path(name).read_text(encoding="utf-8"))["data"]
            for question in (q for article in of_file for p in article["paragraphs"] for q in p["qas"]):
                question["id"] += f"-{number}"
                questions += 1
            articles += of_file
    path.write_text(json.dumps({"version": "v2.0", "data": articles}), encoding="utf-8")
    return questions


def ours(options, path, folder):
    """Seconds, windows and tokens."""
    shutil.rmtree(folder / "shards", ignore_errors=True)
    (folder / "prep.toml").write_text(f"""
[source]
format = "squad"
files = ["{path}"]
[split]
train = 1.0
[tokenizer]
vocabulary = "{pathlib.Path(options.vocabulary).resolve()}"
lowercase = true
max_tokens = {options.max_tokens}
doc_stride = {options.doc_stride}
[task]
name = "question_answering"
[output]
directory = "{folder / "shards"}"
""")
    begin = time.perf_counter()
    text = call(["mpirun", "-n", str(options.cores), options.program, str(folder / "prep.toml")], environment_of_ours())
    seconds = time.perf_counter() - begin
    words = next(line for line in text.splitlines() if line.startswith("train ")).replace(",", "").split()
    return seconds, int(words[1]), int(words[3])


def theirs(options, path, folder, processes):
    environment = environment_of_ours() | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "home"),
                                           "TOKENIZERS_PARALLELISM": "false" if processes else "true", "RAYON_NUM_THREADS": str(options.cores)}
    command = [options.python, "-c", THEIRS, path, folder / "shards/tokenizer.json", options.max_tokens, options.doc_stride, processes,
               folder / "map.arrow"]
    return tuple(json.loads(call(list(map(str, command)), environment).splitlines()[-1]))


def main():
    options = parse_options()
    for program in (options.program, "mpirun"):
        if shutil.which(program) is None:
            print(f"skipped: {program} is not at hand")
            return 77
    if subprocess.run([options.python, "-c", "import datasets, transformers"], capture_output=True).returncode != 0:
        print(f"skipped: {options.python} has no datasets or transformers (--python names one that does)")
        return 77
    ratios = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        questions = write_questions(options, folder / "questions.json")
        for number in range(1, options.rounds + 1):
            own = ours(options, folder / "questions.json", folder)
            with_processes, with_threads = (theirs(options, folder / "questions.json", folder, count) for count in (options.cores, 0))
            if not own[1:] == with_processes[1:] == with_threads[1:]:
                sys.exit(f"windows and tokens differ: ours {own[1:]}, theirs {with_processes[1:]} and {with_threads[1:]}")
            ratios.append(min(with_processes[0], with_threads[0]) / own[0])
            print(f"round {number}: ours {own[0]:.2f} s from start to end; map alone {with_processes[0]:.2f} s with {options.cores} "
                  f"processes, {with_threads[0]:.2f} s in one with threads; ratio {ratios[-1]:.2f}", flush=True)
    print(f"ours is {statistics.median(ratios):.2f} times as fast (rounds: {min(ratios):.2f} to {max(ratios):.2f}); "
          f"{questions:,} questions, {own[1]:,} windows, {own[2]:,} tokens, {options.cores} cores")
    return 0


if __name__ == "__main__":
    sys.exit(main())

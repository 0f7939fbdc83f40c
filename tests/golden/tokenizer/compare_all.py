#!/usr/bin/env python3
"""Compares the ids in bert_hpc_prep's shards with those of Transformers' BertTokenizer: on every code point in several
contexts and on random hostile text (with a vocabulary in which every character counts), and on all text files of a
folder with the vocabularies of BERT where they are at hand. Each text is prepared with vocab.txt and with the folder that
Transformers saves (tokenizer.json alone); the tokenizer that bert_hpc_prep writes is read back by Transformers.

compare_all.py [--prep BINARY] [--data DIR]    DIR has tok/bert-base-{uncased,cased}-vocab.txt and text anywhere below
"""
import argparse
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unicodedata

os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import h5py
import numpy as np
from make_golden import FORMS, SPECIAL
from tokenizers import Tokenizer
from transformers import AutoTokenizer, BertTokenizer

ROOT = pathlib.Path(__file__).resolve().parents[3]


def ours(prep, text, vocabulary, form, folder, tokenizer=None):
    """Ids of each line of the file `text` that is not blank. form: None, as the vocabulary's folder says. tokenizer: keys
    instead of the vocabulary."""
    toml = folder / "compare.toml"
    settings = "\n".join(f"{key.replace('do_lower_case', 'lowercase')} = {str(value).lower()}" for key, value in FORMS.get(form, {}).items())
    toml.write_text(f"""[source]
format = "text"
files = ["{text}"]
[split]
train = 1
validation = 0
test = 0
[tokenizer]
{tokenizer or f'vocabulary = "{vocabulary}"'}
{settings}
max_tokens = 1048576
[task]
name = "masked_lm"
pack = false
[output]
directory = "{folder / 'shards'}"
""")
    subprocess.run([prep, toml], check=True, stdout=subprocess.DEVNULL)
    ids = {}
    for shard in (folder / "shards").glob("*.h5"):
        with h5py.File(shard) as f:
            tokens, offsets, rows = f["input_ids"][:], f["offsets"][:], f["source_index"][:]
        for row, begin, end in zip(rows, offsets[:-1], offsets[1:]):
            ids[int(row)] = tokens[begin:end]
    return [ids[row] for row in sorted(ids)]


def read_back(name, folder, texts):
    """Transformers reads what bert_hpc_prep wrote, tokenizer.json or vocab.txt, as the same tokenizer."""
    written = folder / "shards"
    lines = folder / "lines"
    shutil.rmtree(lines, ignore_errors=True)
    lines.mkdir()
    for file in ("vocab.txt", "tokenizer_config.json"):
        shutil.copy(written / file, lines)
    whole, plain = AutoTokenizer.from_pretrained(written), AutoTokenizer.from_pretrained(lines)
    assert whole.special_tokens_map == plain.special_tokens_map and len(whole) == len(plain), f"{name}: special tokens"
    plain.save_pretrained(folder / "saved")
    assert (written / "tokenizer.json").read_bytes() == (folder / "saved" / "tokenizer.json").read_bytes(), f"{name}: tokenizer.json"
    pairs = list(zip(texts, texts[::-1]))
    alone = Tokenizer.from_file(str(written / "tokenizer.json")).encode_batch(pairs)
    results = [t(*map(list, zip(*pairs)), return_offsets_mapping=True) for t in (whole, plain)]
    for key, values in (("input_ids", [e.ids for e in alone]), ("token_type_ids", [e.type_ids for e in alone]),
                        ("offset_mapping", [e.offsets for e in alone])):
        assert results[0][key] == results[1][key] == values, f"{name}: {key} of what was written"


def compare(name, prep, content, vocabulary, tokenizer, form, folder):
    """Number of lines that differ, the first few printed."""
    text = folder / "text.txt"
    text.write_bytes(content)
    lines = [line for line in content.split(b"\n") if line.strip(b" \t\r\v\f")]
    got = ours(prep, text, vocabulary, form, folder)
    assert len(got) == len(lines), f"{name}: {len(lines)} lines, {len(got)} sequences"
    shutil.rmtree(folder / "saved", ignore_errors=True)
    tokenizer.save_pretrained(folder / "saved")
    assert not (folder / "saved" / "vocab.txt").exists()
    same = ours(prep, text, folder / "saved", None, folder)
    assert len(same) == len(got) and all(map(np.array_equal, got, same)), f"{name}: other ids with tokenizer.json"
    read_back(name, folder, [line.decode("utf-8", "replace") for line in lines[:1000]])
    different = 0
    for begin in range(0, len(lines), 1000):
        block = [line.decode("utf-8", "replace") for line in lines[begin : begin + 1000]]
        for i, expected in enumerate(tokenizer(block, truncation=True, max_length=1 << 20)["input_ids"]):
            if not np.array_equal(expected, got[begin + i]):
                different += 1
                if different <= 3:
                    print(f"{name}: {ascii(block[i][:200])}\n  expected {expected[:40]}\n  got      {got[begin + i][:40]}")
    print(f"{name}: {len(lines)} lines, {different} differ", flush=True)
    return different


def hostile():
    state = random.Random(11)
    points = [chr(p) for p in range(1, 0x110000) if not 0xD800 <= p < 0xE000 and p != 10]
    marks = [c for c in points if unicodedata.combining(c) or unicodedata.category(c)[0] == "M"]
    lines = []
    for begin in range(0, len(points), 8):
        lines.append(" ".join(f"a{c}b {c} {c}{c}E\u0301{c}\u302e" for c in points[begin : begin + 8]).encode())
    kinds = (marks, marks, points, [chr(c) for c in range(32, 127)], ["[MASK]", "[SEP]", "[", "İ", "ΑΣ", "한", " ", "\r"])
    for _ in range(20000):
        lines.append("".join(state.choice(state.choice(kinds)) for _ in range(state.randrange(1, 40))).encode())
    for _ in range(10000):
        lines.append(bytes(state.choice((state.randrange(11, 256), state.choice(b"\xf0\x9f\x98\x80\xed\xa0\xe2[MASK]")))
                           for _ in range(state.randrange(1, 40))))
    lines += [("é" * n + mark * m).encode() for n in (99, 100, 101) for m in (0, 1, 200) for mark in ("\u0301", "\u302e")]
    return b"\n".join(lines), points


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--prep", default=str(pathlib.Path(os.environ.get("BERT_HPC_BUILD", ROOT / "build")) / "bert_hpc_prep"))
    arguments.add_argument("--data", type=pathlib.Path, default=ROOT.parent / "shared" / "data")
    options = arguments.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        content, points = hostile()
        pieces = SPECIAL + [c for c in points if c not in "\r\n"]
        pieces += ["##" + c for c in pieces[len(SPECIAL) :]]
        vocabulary = folder / "characters.txt"
        vocabulary.write_bytes("\n".join(pieces).encode())
        numbers = {piece: i for i, piece in enumerate(pieces)}
        for form, settings in FORMS.items():
            tokenizer = BertTokenizer(vocab=numbers, **settings)
            failures += compare(f"hostile text, {form}", options.prep, content, vocabulary, tokenizer, form, folder)
        if not (options.data / "tok").is_dir():
            print(f"skipped: no real text, as {options.data} is not there")
        for form, settings in FORMS.items():
            vocabulary = options.data / "tok" / f"bert-base-{'cased' if form == 'cased' else 'uncased'}-vocab.txt"
            if not vocabulary.exists():
                continue
            tokenizer = BertTokenizer(vocab=str(vocabulary), **settings)
            for path in sorted(options.data.rglob("*.*")):
                if path.suffix in (".txt", ".tsv", ".csv", ".json") and path.parent.name != "tok":
                    failures += compare(f"{path.name}, {form}", options.prep, path.read_bytes(), vocabulary, tokenizer, form, folder)
    print("all ids are equal" if failures == 0 else f"{failures} lines differ")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())

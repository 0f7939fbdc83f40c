#!/usr/bin/env python3
"""Compares the ids in bert_hpc_prep's shards, and the span of each token in its line, with those of Hugging Face's fast
tokenizers for byte-level BPE: on every seventh code point, random hostile text, code and tables of numbers, and all text files of a folder, with GPT-2's
vocabulary, with RoBERTa's template and in ModernBERT's shape, from tokenizer.json and from vocab.json with merges.txt. A
tokenizer that bert_hpc_prep trains or writes is read back by Transformers.

compare_byte_bpe.py [--build FOLDER] --data DIR    DIR has tok/gpt2-vocab.json, tok/gpt2-merges.txt and text anywhere below

FOLDER has bert_hpc_prep and tests/encode_lines ("ninja bert_hpc_prep encode_lines").
"""
import argparse
import itertools
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import numpy as np
from compare_all import ours
from make_byte_bpe import POOLS, SPECIAL
from make_modernbert import FIRST, hostile, modernbert
from tokenizers import models
from transformers import AutoTokenizer, GPT2Tokenizer, PreTrainedTokenizerFast, RobertaTokenizer

ROOT = pathlib.Path(__file__).resolve().parents[3]
LONGEST = 200000  # characters of a line, so that none has more tokens than a sequence


def lines_of(data):
    random.seed(3)
    for _ in range(20000):
        yield "".join(random.choice(random.choice(POOLS)) for _ in range(random.randint(1, 25)))
        yield "x" + "".join(hostile(random) for _ in range(random.randint(1, 25)))
    for point in range(0, 0x110000, 7):
        if not 0xD800 <= point < 0xE000:
            yield f"a{chr(point)}b {chr(point)}{chr(point)}1{chr(point)}e\u0301{chr(point)}\u0316"
    for _ in range(500):
        yield "\t".join(f"{random.uniform(-1e6, 1e6):.{random.randint(0, 8)}g}" for _ in range(12))
    for path in sorted([*ROOT.glob("src/**/*.cpp"), *(p for p in data.rglob("*") if p.is_file() and p.suffix != ".bin")]):
        for line in path.read_bytes().decode("utf-8", "replace").split("\n"):
            yield from (line[at : at + LONGEST] for at in range(0, max(len(line), 1), LONGEST))


def prepared(data, folder):
    """A file of all lines that bert_hpc_prep does not leave out as they have no visible characters, and these lines."""
    lines = [line.replace("\r", "").replace("\n", "") for line in lines_of(data)]
    lines = [line for line in lines if any(c.isprintable() and not c.isspace() and ord(c) < 0xD800 for c in line)]
    text = folder / "text.txt"
    text.write_text("\n".join(lines) + "\n", newline="")
    return text, lines


def lines_encoded(build, text, folder):
    """[(ids without special tokens, [begin, end, begin, …])] of each line by the tokenizer in `folder`."""
    numbers = np.frombuffer(subprocess.run([build / "tests/encode_lines", folder, text], check=True, stdout=subprocess.PIPE).stdout, np.int32)
    found, at = [], 0
    while at < len(numbers):
        ids, end = at + 1 + numbers[at], at + 1 + 3 * numbers[at]
        found.append((numbers[at + 1 : ids], numbers[ids:end]))
        at = end
    return found


def flat(pairs):
    return np.fromiter(itertools.chain.from_iterable(pairs), np.int64, 2 * len(pairs))


def compare(name, build, text, lines, vocabulary, theirs, folder):
    """Ids of our shards and spans of tokens against those of `theirs`, and against the folder that we wrote, read by Transformers."""
    found = ours(build / "bert_hpc_prep", text, vocabulary, None, folder)
    encoded = lines_encoded(build, text, folder / "shards")
    assert len(found) == len(encoded) == len(lines), (len(found), len(encoded), len(lines))
    written = AutoTokenizer.from_pretrained(folder / "shards")
    for reader, tokenizer in (("given", theirs), ("written", written)):
        for start in range(0, len(lines), 5000):
            rows = slice(start, start + 5000)
            expected = tokenizer.backend_tokenizer.encode_batch(lines[rows])
            their_offsets = [flat(e.offsets) for e in expected]
            of_text = [np.array(e.special_tokens_mask, dtype=bool) == 0 for e in expected]  # no token of the template
            for line, e, offsets, mask, own, (ids, spans) in zip(lines[rows], expected, their_offsets, of_text, found[rows], encoded[rows], strict=True):
                if not (np.array_equal(own, e.ids) and np.array_equal(ids, np.array(e.ids, np.int64)[mask])):
                    sys.exit(f"{name}, {reader}: {line!r}: ours {own.tolist()}, theirs {e.ids}")
                if not np.array_equal(spans.reshape(-1, 2), offsets.reshape(-1, 2)[mask]):
                    sys.exit(f"{name}, {reader}, spans: {line!r}: ours {spans.reshape(-1, 2).tolist()}, theirs {offsets.reshape(-1, 2)[mask].tolist()}")
    print(f"{name}: {len(lines)} lines, {sum(map(len, found))} tokens and their spans are equal, and so are those of the written folder", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--data", type=pathlib.Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        text, lines = prepared(options.data, folder)
        gpt2 = folder / "gpt2"
        gpt2.mkdir()
        for file in ("vocab.json", "merges.txt"):
            shutil.copy(options.data / "tok" / f"gpt2-{file}", gpt2 / file)
        roberta = folder / "roberta"
        roberta.mkdir()
        tokens = [token for token in json.loads((gpt2 / "vocab.json").read_text()) if token != "<|endoftext|>"]
        tokens = SPECIAL[:4] + tokens + SPECIAL[4:]
        (roberta / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
        shutil.copy(gpt2 / "merges.txt", roberta)
        for kind, given in ((GPT2Tokenizer, gpt2), (RobertaTokenizer, roberta)):
            theirs = kind.from_pretrained(given)
            compare(f"{given.name}, older files", options.build, text, lines, given, theirs, folder)
            saved = folder / f"{given.name}_saved"
            theirs.save_pretrained(saved)
            compare(f"{given.name}, tokenizer.json", options.build, text, lines, saved, theirs, folder)
        tokens = FIRST + [token for token in tokens if token not in SPECIAL]
        merges = [tuple(line.split(" ")) for line in (gpt2 / "merges.txt").read_text().splitlines()[1:]]
        theirs = PreTrainedTokenizerFast(tokenizer_object=modernbert(models.BPE({token: i for i, token in enumerate(tokens)}, merges)),
                                         **{f"{role}_token": f"[{role.upper()}]" for role in ("cls", "sep", "pad", "mask", "unk")})
        theirs.save_pretrained(folder / "modernbert")
        compare("modernbert", options.build, text, lines, folder / "modernbert", theirs, folder)
        trained = folder / "trained"
        ours(options.build / "bert_hpc_prep", text, "", None, folder, 'type = "byte_bpe"\ntrain_size = 5000')
        shutil.move(folder / "shards", trained)
        compare("trained here", options.build, text, lines, trained, AutoTokenizer.from_pretrained(trained), folder)


if __name__ == "__main__":
    main()

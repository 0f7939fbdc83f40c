#!/usr/bin/env python3
"""Makes metaspace_bpe.json: ids and offsets of hostile texts as Hugging Face's tokenizers gives them, for BPE whose blanks are
"▁", of each form: Gemma's and mmBERT's (a normalizer alone, or with a Split), Llama 2's (Prepend, or Metaspace), and what
unknown characters become with and without tokens of bytes. Vocabularies of a few hundred tokens are trained here.

Run: python make_metaspace_bpe.py > metaspace_bpe.json
"""
import collections
import functools
import json
import random

import tokenizers
from make_byte_bpe import POOLS, TEXT, case, golden
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

MARK = "▁"
SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
MORE = """if  a:\n        b  =  0\n    return    b\n\n\n\t\tx\t=\t1\n1\t2\t3\n10\t20\t30\n""" * 3
BLANKS = normalizers.Replace(" ", MARK)
SPLIT = pre_tokenizers.Split(" ", "merged_with_previous")


@functools.cache
def trained(size, texts=(TEXT, MORE)):
    """Tokens and merges, those of runs of blanks and line ends too."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = BLANKS
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(rf"{MARK}+[^{MARK}\s]+|{MARK}+|\s+|[^{MARK}\s]+"), "isolated")
    counts = collections.Counter(character for text in texts for character in text.replace(" ", MARK))
    # The trainer draws among characters that are equally frequent: the choice is made here.
    alphabet = sorted(counts, key=lambda character: (-counts[character], character))[:size // 4]
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, limit_alphabet=len(alphabet), show_progress=False))
    model = json.loads(tokenizer.to_str())["model"]
    return sorted(model["vocab"], key=model["vocab"].get), [tuple(merge) for merge in model["merges"]]


def tokenizer_of(size=220, texts=(TEXT, MORE), byte_tokens=BYTES, unknown="<unk>", **options):
    """Gemma's order of tokens, with the template of mmBERT and without normalizer and pre-tokenizer."""
    tokens, merges = trained(size, texts)
    vocabulary = [*SPECIAL, *byte_tokens, *tokens]
    options = {"fuse_unk": True, "byte_fallback": bool(byte_tokens), **options}
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(vocabulary)}, merges, unk_token=unknown, **options))
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken("\n\n", normalized=False), AddedToken(f"{MARK}{MARK}", normalized=False),
                          AddedToken("[E1]", single_word=True, rstrip=True, normalized=False)])
    tokenizer.post_processor = processors.TemplateProcessing("<bos> $A <eos>", "<bos> $A <eos> $B <eos>", [("<bos>", 2), ("<eos>", 1)])
    return tokenizer


def forms(**options):
    gemma = tokenizer_of(**options)
    gemma.normalizer = BLANKS
    yield "gemma", gemma
    split = tokenizer_of(**options)
    split.normalizer, split.pre_tokenizer = BLANKS, SPLIT
    yield "split", split
    spaces = tokenizer_of(**options)
    spaces.pre_tokenizer = SPLIT
    yield "split at spaces", spaces
    llama = tokenizer_of(**options)
    llama.normalizer = normalizers.Sequence([normalizers.Prepend(MARK), BLANKS])
    llama.add_tokens([AddedToken("don't", normalized=True), AddedToken("chickens", normalized=True, lstrip=True, rstrip=True)])
    llama.post_processor = processors.TemplateProcessing("<bos> $A", "<bos> $A <bos>:1 $B:1", [("<bos>", 2)])
    yield "llama", llama
    first = tokenizer_of(ignore_merges=True, **options)
    first.pre_tokenizer = pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="first", split=False)
    yield "first", first
    always = tokenizer_of(byte_tokens=(), **options)
    always.pre_tokenizer = pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="always")
    yield "words", always
    blanks = tokenizer_of(byte_tokens=(), fuse_unk=False, ignore_merges=True, **options)
    blanks.normalizer = normalizers.Strip()
    blanks.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="always")])
    yield "unknown characters", blanks
    for name, byte_tokens, unknown in (("some bytes", BYTES[::2], "<unk>"), ("some bytes, no unknown token", BYTES[1::2], None),
                                       ("no unknown token", (), None)):
        some = tokenizer_of(byte_tokens=byte_tokens, unknown=unknown, **options)
        some.normalizer = normalizers.Sequence([normalizers.Replace(Regex(" {2,}"), " "), BLANKS])
        yield name, some


OWN = [MARK, f"{MARK}{MARK}", f" {MARK}", "\n\n", "\t\t", "    ", "<0x0A>", "<bos>", "<eos>", "chickens", "monkeys", "bananas", "return", " the ",
       "東京", "東", "é", "ç", "ё", "\u0301", "def f(x):", "**2", "don't"]


def texts():
    random.seed(4)
    pools = [*POOLS, OWN, OWN, SPECIAL]
    yield from ("", " ", "  ", " a", "a ", "\n", "Hello world", "<mask>", "a<mask>b", " <mask> the", "the  <mask> the", TEXT, MORE, "ab" * 200, "=" * 300,
                " " * 150, "the " * 50, "thethe" * 40, "\n" * 30, "1\t2\t3\n" * 10, f"{MARK}a {MARK}", f"{MARK}{MARK}{MARK}", "東京 と 北京" * 40, "\0\0", "a\0", "\0" * 20)
    for _ in range(70):
        yield "".join(random.choice(random.choice(pools)) for _ in range(random.randint(1, 25)))


def main():
    all_texts = list(texts())
    cases = [case(name, tokenizer, all_texts) for name, tokenizer in forms()]
    print(golden(f"make_metaspace_bpe.py with tokenizers {tokenizers.__version__}", all_texts, cases))


if __name__ == "__main__":
    main()

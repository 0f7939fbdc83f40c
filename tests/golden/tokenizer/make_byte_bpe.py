#!/usr/bin/env python3
"""Makes byte_bpe.json: ids and offsets of hostile texts as Hugging Face's tokenizers gives them, for byte-level BPE
tokenizers of each form (GPT-2's, RoBERTa's, patterns of GPT-4 and Qwen 2, no pattern), with vocabularies of a few
hundred tokens that it trains here; and the vocabulary and merges of such a training.

Run: python make_byte_bpe.py > byte_bpe.json
"""
import copy
import json
import random

import tokenizers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

TEXT = """Don't count your chickens before they've hatched, I'd say; we'll see what they're like.
The 12 monkeys ate 1,234 bananas (or 0.5 tons) in 2024!  Naïve façade, señor: 東京と北京。 Привет, мир!
def f(x):\n\treturn x**2 + 3*x - 1  # a comment\n\n\nfor i in range(10):\n    print(f(i), end="\\r\\n")
"""
CL100K = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
POOLS = [
    list("abcdeh ABC"),
    list(" \t\n\r\u00a0\u2003\u3000\u0085\x0b\x1c"),
    ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'RE", "'\u017f", "'"],
    list("0123456789\u0661\u00b2\u2460"),
    list("!?.,;:-_()[]{}<>|/\\\"`~@#$%^&*+="),
    [chr(c) for c in (0x17F, 0x212A, 0x300, 0x200D, 0xFE0F, 0x1F600, 0x1F468, 0x4E2D, 0xAC00, 0xE01, 0xFFFD, 0xFEFF, 0, 1, 0x7F, 0xAD, 0x10FFFF, 0xE000)],
    SPECIAL + [" <mask>", "<|endoftext|>", "\u0120", "don't", "the", " the", "  ", "\n\n", "\r\n", "[E1]", " [E1] "],
]


def trained(special):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=special, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(TEXT.split("\n"), trainer)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def forms():
    gpt2 = trained(["<|endoftext|>"])
    gpt2.post_processor = processors.ByteLevel(trim_offsets=False)
    yield "gpt2", gpt2
    for name, prefix, trim, lstrip in (("roberta", False, True, False), ("roberta with a prefix", True, True, True),
                                       ("roberta untrimmed", True, False, True)):
        roberta = trained(SPECIAL)
        roberta.add_special_tokens([AddedToken("<mask>", lstrip=lstrip, special=True)])
        roberta.add_tokens([AddedToken("[E1]", single_word=True, rstrip=True, normalized=True)])
        roberta.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
        roberta.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim, prefix)
        yield name, roberta
    for name, pattern in (("cl100k", CL100K), ("one digit", CL100K.replace("{1,3}", ""))):
        other = copy.deepcopy(gpt2)
        document = json.loads(other.to_str())
        document["model"]["ignore_merges"] = True
        other = Tokenizer.from_str(json.dumps(document))
        other.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated"),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        other.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing("<|endoftext|> $A", "<|endoftext|> $A <|endoftext|>:1 $B:1", [("<|endoftext|>", 0)])])
        yield name, other
    whole = copy.deepcopy(gpt2)
    whole.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False)
    yield "whole", whole


def texts():
    random.seed(1)
    yield from ("", " ", "  ", " a", "a ", "\n", "Hello world", "<mask>", "a<mask>b", " <mask> the", TEXT, "ab" * 200, "=" * 300)
    for _ in range(90):
        yield "".join(random.choice(random.choice(POOLS)) for _ in range(random.randint(1, 25)))


def case(name, tokenizer, all_texts, second="a", words=("the", "Don't", "12")):
    """Ids and offsets that a tokenizer gives for the texts, for "the" and a second text with their special tokens, and for words one by one."""
    encodings = [tokenizer.encode(text, add_special_tokens=False) for text in all_texts]
    pair = tokenizer.encode("the", second)
    return {"name": name, "tokenizer": json.loads(tokenizer.to_str()), "single": tokenizer.encode("the").ids, "pair": pair.ids,
            "types": pair.type_ids, "words": tokenizer.encode(list(words), is_pretokenized=True, add_special_tokens=False).ids,
            "ids": [e.ids for e in encodings], "offsets": [[x for span in e.offsets for x in span] for e in encodings]}


def golden(made_by, all_texts, cases, **more):
    """The text of a file of goldens."""
    return json.dumps({"made by": made_by, "texts": [text.encode().hex() for text in all_texts], "cases": cases, **more},
                      ensure_ascii=True, separators=(",", ":"))


def main():
    all_texts = list(texts())
    cases = [case(name, tokenizer, all_texts) for name, tokenizer in forms()]
    model = json.loads(trained(SPECIAL).to_str())["model"]
    training = {"text": TEXT.split("\n"), "size": 420, "vocabulary": sorted(model["vocab"], key=model["vocab"].get), "merges": model["merges"]}
    print(golden(f"make_byte_bpe.py with tokenizers {tokenizers.__version__}", all_texts, cases, training=training))


if __name__ == "__main__":
    main()

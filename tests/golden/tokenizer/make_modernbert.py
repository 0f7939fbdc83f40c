#!/usr/bin/env python3
"""Makes modernbert.json: ids and offsets of hostile texts as Hugging Face's tokenizers gives them, for a byte-level BPE
tokenizer of ModernBERT's shape (NFC, added tokens that are runs of blanks, special tokens and template of BERT) with a
small vocabulary that it trains here; the same with a prefix and trimmed offsets; and Unicode's normal form C of all
code points and of random sequences, with the characters that each one was made from.

Run: python make_modernbert.py > modernbert.json
"""
import random
import unicodedata

import tokenizers
from make_byte_bpe import POOLS, TEXT, case, golden
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

FIRST = ["|||IP_ADDRESS|||", "<|padding|>"]
WORDS = "Ångström and Zoë met at the café in Việt Nam; naïve façade, déjà vu! 한국어 각 값, हिन्दी क़लम, Ω K, ﬁ ½."
MARKS = [chr(c) for c in range(0x300, 0x370)] + list("\u0591\u05b4\u05bc\u05c1\u064b\u0651\u093c\u094d\u09be\u09d7\u0bbe\u0dcf\u0e38\u0f71\u0f72\u0f74\u1dc0\u20d0"
                                                     "\u302a\u3099\u309a\U0001d165\U0001d16e\U0001e8d0\U00011930\U0001e130")
BASES = list("aAeEiouKksSZ<=>\u00e9\u00c5\u1e9b\u1ea1\u0105\u03b1\u03c9\u0415\u0438\u0915\u09c7\u0b92\u0dd9\u05d9\u05e9\u304b\u30cf\u0f40\U0001d157\U00011935")
JAMO = [chr(c) for c in (0x1100, 0x1112, 0x1113, 0x1161, 0x1175, 0x1176, 0x11A7, 0x11A8, 0x11C2, 0xAC00, 0xAC01, 0xD788, 0xD7A3)]
SINGLE = list("\u212b\u2126\u212a\u0340\u0341\u0343\u0344\u0374\u037e\u0387\u0958\u095f\u09dc\u0f43\u0f73\u0f75\u0f81\u0fb9\u1f71\u1fbe\u2000\u2adc\uf900\ufa10\ufb1d\ufb1f\ufb2c"
              "\U0001d15e\U0001d160\U0002f800\U0002fa1d")
BLANKS = [" " * n for n in range(1, 31)] + ["\t", "\n", "\u00a0", "\u3000"]
TOKENS = FIRST + ["|||EMAIL_ADDRESS|||", "<|endoftext|>", "[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]", " [MASK]", "  [MASK]", "[unused0]", "[unuse\u0301d]", "[unus\u00e9d]"]


def modernbert(model, prefix=False, trims=False):
    """A tokenizer of this shape with the vocabulary of `model`, which begins with FIRST."""
    made = Tokenizer(model)
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    made.decoder = decoders.ByteLevel()
    made.add_tokens([AddedToken(FIRST[0], normalized=True)])
    made.add_special_tokens([AddedToken(FIRST[1], normalized=False)])
    made.add_tokens([AddedToken(" " * n, normalized=True) for n in range(24, 1, -1)])
    made.add_tokens([AddedToken(f"|||{name}|||", normalized=True) for name in ("EMAIL_ADDRESS", "PHONE_NUMBER")])
    made.add_special_tokens([AddedToken(name, normalized=False, lstrip=name == "[MASK]")
                             for name in ("<|endoftext|>", "[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")])
    made.add_tokens([AddedToken(name, normalized=True) for name in ("[unused0]", "[unused1]", "[unuse\u0301d]")])
    template = processors.TemplateProcessing("[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
                                             [(name, made.token_to_id(name)) for name in ("[CLS]", "[SEP]")])
    made.post_processor = processors.Sequence([processors.ByteLevel(add_prefix_space=prefix, trim_offsets=True), template]) if trims else template
    return made


def trained():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=480, special_tokens=FIRST, show_progress=False, min_frequency=1,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([*TEXT.split("\n"), WORDS, WORDS], trainer)
    return tokenizer.model


def hostile(draw):
    pool = draw.choice((MARKS, MARKS, BASES, BASES, JAMO, SINGLE, BLANKS, TOKENS, *POOLS[:6]))
    return draw.choice(pool)


def texts(draw):
    yield from ("", " ", "Hello world", TEXT, WORDS, unicodedata.normalize("NFD", WORDS), unicodedata.normalize("NFKD", WORDS))
    yield from (" " * n + "a" for n in range(1, 31))
    yield from ("x" + " " * 30 + "e\u0301", "\u0301", "\u0301\u0327a", "a\u0301\u0327b", "e\u0301[CLS]\u0301e", "[MASK]\u0301", "e  [MASK]  \u0301", "\u212b\u2126\u212a",
                "\u1112\u1161\u11ab\u1100\u1161\u11a8", "\uac00\u11a8\uac01\u11a8", "\0\u0301\0", "e\u0301\0", "\U0001f468\u200d\U0001f469\u0301", "[unuse\u0301d][unus\u00e9d]",
                "  \u0301  ", "a\u0316\u0301", "A\u030a\u0301 \u01fa", "\u0344", "a" + "\u0301\u0316" * 300, "e\u0301" * 500, "\u0958\u0915\u093c", "ab" * 200)
    for _ in range(150):
        yield "".join(hostile(draw) for _ in range(draw.randint(1, 25)))


def normal_forms(draw):
    """Characters by themselves, taken apart, and at random, and what becomes of them."""
    points = [chr(p) for p in range(0x110000) if not 0xD800 <= p < 0xE000]
    nfc, nfd = normalizers.NFC().normalize_str, normalizers.NFD().normalize_str
    changed, apart = [c for c in points if nfc(c) != c], [nfd(c) for c in points if nfd(c) != c and not "\uac00" <= c <= "\ud7a3"]
    each_byte = Tokenizer(models.BPE({c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, []))
    each_byte.normalizer = normalizers.NFC()
    each_byte.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    pairs = []
    for _ in range(400):
        text = "".join(draw.choice(draw.choice((MARKS, MARKS, BASES, JAMO, SINGLE, ["x", " "]))) for _ in range(draw.randint(1, 12)))
        composed, origins, at = nfc(text), [], 0
        offsets = each_byte.encode(text).offsets
        for c in composed:
            begin, end = offsets[at]
            assert end == begin + 1
            origins.append(begin)
            at += len(c.encode())
        assert at == len(offsets)
        pairs.append([text, composed, origins])
    return {"changed": "".join(changed), "changed_composed": [nfc(c) for c in changed], "apart": apart, "composed": [nfc(form) for form in apart], "random": pairs}


def main():
    draw = random.Random(4)
    all_texts = list(texts(draw))
    cases = [case(name, modernbert(trained(), prefix, trims), all_texts, "e\u0301", ("the", "e\u0301", "\u0301", "Don't", "12"))
             for name, prefix, trims in (("modernbert", False, False), ("modernbert with a prefix", True, True))]
    print(golden(f"make_modernbert.py with tokenizers {tokenizers.__version__}", all_texts, cases, normal_form=normal_forms(draw)))


if __name__ == "__main__":
    main()

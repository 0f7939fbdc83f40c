#!/usr/bin/env python3
"""Makes unigram.json: ids and offsets of hostile texts as Hugging Face's tokenizers gives them, for Unigram tokenizers of
each form (XLM-RoBERTa's, those that Transformers converts, ALBERT's, DeBERTa's as Transformers 4 and 5 have them, without a
normalizer, with tokens of bytes). SentencePiece trains vocabularies of a few hundred pieces here, with a small table of characters.

Run: python make_unigram.py > unigram.json    (needs tokenizers, sentencepiece and protobuf)
"""
import io
import pathlib
import random
import tempfile

import sentencepiece
import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from make_byte_bpe import POOLS, SPECIAL, TEXT, case, golden

# Code points of what is replaced, and of what replaces it.
RULES = ["9\t20", "A\t20", "D\t20", "D A\t20", "A0\t20", "3000\t20", "2003\t20", "85\t20", "AD\t", "FEFF\t", "1\t", "7F\t",
         "FF21\t41", "FF22\t42", "FF11\t31", "FB01\t66 69", "2026\t2E 2E 2E", "65 301\tE9", "61 308\tE4", "B2\t32", "2460\t31",
         "17F\t73", "212A\t4B", "E33\tE4D E32", "AC00\t1100 1161", "FE0F\t"]
MARK = "▁"
# DeBERTa's special tokens, whose ids are those of SentencePiece's model.
DEBERTA = {"pad_id": 0, "pad_piece": "[PAD]", "bos_id": 1, "bos_piece": "[CLS]", "eos_id": 2, "eos_piece": "[SEP]", "unk_id": 3, "unk_piece": "[UNK]"}


def trained(character_map=None, **options):
    """A model of SentencePiece; its table is the small one, or the one of this name."""
    with tempfile.TemporaryDirectory() as folder:
        rules = pathlib.Path(folder) / "rules.tsv"
        rules.write_text("\n".join(RULES) + "\n")
        own = {"normalization_rule_name": character_map} if character_map else {"normalization_rule_tsv": str(rules)}
        written = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter((TEXT * 3).split("\n")), model_writer=written, model_type="unigram", minloglevel=2,
            hard_vocab_limit=False, num_threads=1, character_coverage=1.0, **{"vocab_size": 300, **options, **own})
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(written.getvalue())
    return model


def tokenizer_of(model, byte_fallback=False):
    """XLM-RoBERTa's order of special tokens, without normalizer and pre-tokenizer."""
    pieces = [(piece.piece, piece.score) for piece in model.pieces if piece.piece not in ("<s>", "</s>", "<unk>")]
    vocabulary = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *pieces]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=3, byte_fallback=byte_fallback))
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True, lstrip=token == "<mask>") for token in SPECIAL])
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> </s> $B </s>", [("<s>", 0), ("</s>", 2)])
    return tokenizer


def deberta_of(model):
    """DeBERTa's, without normalizer and pre-tokenizer."""
    tokenizer = Tokenizer(models.Unigram([(piece.piece, piece.score) for piece in model.pieces], unk_id=3))
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]")])
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", 1), ("[SEP]", 2)])
    return tokenizer


def charsmap(model):
    return normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap)


def split(**options):
    return pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement=MARK, **options)])


def deberta_forms(model):
    """As Transformers 4 and 5 convert DeBERTa's model, and with text that is split further."""
    spaces = [normalizers.Strip(), charsmap(model), normalizers.Replace(Regex(" {2,}"), " ")]
    blanks = [normalizers.Replace(Regex(r"\s{2,}|[\n\r\t]"), " "), normalizers.NFC(), normalizers.Strip(left=False, right=True)]
    always, first = (pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme=scheme) for scheme in ("always", "first"))
    further = [pre_tokenizers.Punctuation(behavior="isolated"), pre_tokenizers.WhitespaceSplit(), first]
    for name, normalizer, pre_tokenizer in (("deberta 4", spaces, [always]), ("deberta 5", blanks, [always]),
                                            ("deberta, split", [normalizers.Lowercase(), *blanks], further)):
        tokenizer = deberta_of(model)
        tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Sequence(normalizer), pre_tokenizers.Sequence(pre_tokenizer)
        yield name, tokenizer


def forms(character_map=None, **options):
    model = trained(character_map, **options)
    xlm = tokenizer_of(model)
    xlm.normalizer, xlm.pre_tokenizer = charsmap(model), split(prepend_scheme="always")
    yield "xlm-roberta", xlm
    converted = tokenizer_of(model)
    converted.normalizer = normalizers.Sequence([charsmap(model), normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), MARK)])
    converted.pre_tokenizer = pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="always")
    yield "converted", converted
    first = tokenizer_of(model)
    first.normalizer = normalizers.Sequence([normalizers.Replace("``", '"'), normalizers.Strip()])
    first.pre_tokenizer = pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="first")
    first.post_processor = processors.TemplateProcessing("$A </s>", "$A </s> $B:1 </s>:1", [("</s>", 2)])
    yield "first", first
    blanks = tokenizer_of(model)
    blanks.pre_tokenizer = split(prepend_scheme="first")
    yield "blanks, first", blanks
    whole = tokenizer_of(model)
    whole.pre_tokenizer = pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="never", split=False)
    yield "whole", whole
    quotes = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    albert = tokenizer_of(model)
    albert.normalizer = normalizers.Sequence([*quotes, normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), charsmap(model)])
    albert.pre_tokenizer = split(prepend_scheme="always")
    albert.post_processor = processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> $B:1 </s>:1", [("<s>", 0), ("</s>", 2)])
    yield "albert", albert
    accents = tokenizer_of(model)  # ALBERT's with keep_accents
    accents.normalizer = normalizers.Sequence([*quotes, normalizers.Lowercase(), charsmap(model)])
    accents.pre_tokenizer = split(prepend_scheme="always")
    yield "accents", accents
    decomposed = tokenizer_of(model)  # marks stay, in canonical order
    decomposed.normalizer = normalizers.NFKD()
    decomposed.pre_tokenizer = split(prepend_scheme="always")
    yield "decomposed", decomposed
    yield from deberta_forms(trained(character_map, **DEBERTA, **options))
    fallen = trained(character_map, byte_fallback=True, vocab_size=420)
    bytes_ = tokenizer_of(fallen, byte_fallback=True)
    bytes_.normalizer, bytes_.pre_tokenizer = charsmap(fallen), split(prepend_scheme="always")
    yield "bytes", bytes_


OWN = [MARK, "e\u0301", "a\u0308", "\ufb01", "\u2026", "\uff21", "\uff22\uff11", "\u0e33", "\uac00", "``", "\u0301", "\u1100\u1161", "Na\u0131ve", "fa\u00e7ade",
       "''", "\u1ebf", "e\u0323\u0302", "e\u0302\u0323", "\u0130", "\u1e9b\u0323", "\ufdfa", "\u00bd", "\u20dd", "\u0903", "\u0345", "\u01c5", "\u03a3", "\U0001d15e"]


def texts():
    random.seed(2)
    pools = [*POOLS, OWN, ["chickens", "monkeys", "bananas", "return", " the ", "  "]]
    yield from ("", " ", "  ", " a", "a ", "\n", "Hello world", "<mask>", "a<mask>b", " <mask> the", "the  <mask>", TEXT, "ab" * 200, "=" * 300,
                f"{MARK}a {MARK}", f"{MARK}{MARK}", "\u00ad", "\u00adthe", "the\u00ad", "a\u00ad\u00adb c", "e\u0301e\u0301", "\r\n\r\n", "a\r\nb",
                "the [MASK] \n[SEP]a[UNK]", "don't! (\u00a0a\u2028b) \u3002c\t", "\ta ,\u00a0\u3001b\x85\x85c\x0bd\u2003")
    for _ in range(120):
        yield "".join(random.choice(random.choice(pools)) for _ in range(random.randint(1, 25)))


def main():
    all_texts = list(texts())
    cases = [case(name, tokenizer, all_texts) for name, tokenizer in forms()]
    print(golden(f"make_unigram.py with tokenizers {tokenizers.__version__} and sentencepiece {sentencepiece.__version__}", all_texts, cases))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Makes letters.json: ids of hostile texts as Transformers' EsmTokenizer gives them, and offsets as Hugging Face's tokenizers
gives them for the same tokenizer as a tokenizer.json. Ids of both must be equal.

Run: python make_letters.py > letters.json    (needs transformers and tokenizers)
"""
import json
import pathlib
import random
import re
import tempfile

import tokenizers
import transformers
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, processors

ESM = "<cls> <pad> <eos> <unk> L A G V S E R T I D P K Q N F Y M H W C X B U Z O . - <null_1> <mask>".split()
# Tokens that begin others, letters of several bytes, and what regular expressions read.
HOSTILE = "<cls> <pad> <eos> <unk> A AB ABC C + * ( [ ] ? \\ ^ $ | {2} é 漢字 漢 👍 <mask>".split()
POOLS = [list("LAGVSERTIDPKQNFYMHWC"), list("XBUZO.-"), list("jJ?*#1aé漢"), [" ", "\n", "\t", "\u00a0", "\u3000"],
         ["<mask>", "<null_1>", "<cls>", "<eos>", "<pad", "null_1>"], ["AB", "ABC", "A", "BC", "漢字", "字", "👍", "{2}", "{", "\\", "+"]]


def esm_tokenizer(vocabulary):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "vocab.txt"
        path.write_text("\n".join(vocabulary))
        return transformers.EsmTokenizer(str(path))


def fast_tokenizer(vocabulary):
    tokenizer = Tokenizer(models.WordLevel({token: id for id, token in enumerate(vocabulary)}, unk_token="<unk>"))
    pattern = "|".join(re.sub(r"[\\.+*?()|\[\]{}^$]", r"\\\g<0>", token) for token in sorted(vocabulary, key=lambda token: -len(token.encode())))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(pattern), "isolated")])
    tokenizer.post_processor = processors.TemplateProcessing("<cls> $A <eos>", "<cls> $A <eos> $B <eos>", [("<cls>", 0), ("<eos>", 2)])
    special = ("<cls>", "<pad>", "<eos>", "<unk>", "<mask>")
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    return tokenizer


def texts():
    random.seed(5)
    yield from ("", " ", "M", "MKTAYIAKQR", "mkta", "MKJ?V", "MK??V?K", "MK<mask>V <mask> K", "  MK\nV\t", "MKé V", "<null_1>M<nul", "M--K..",
                "ABC", "ABAB", "ABCAB", "漢字漢", "字漢", "{2}{2", "\\\\", "A" * 300)
    for _ in range(150):
        yield "".join(random.choice(random.choice(POOLS)) for _ in range(random.randint(1, 30)))


def case(name, vocabulary, all_texts):
    slow, fast = esm_tokenizer(vocabulary), fast_tokenizer(vocabulary)
    encodings = [fast.encode(text, add_special_tokens=False) for text in all_texts]
    ids = [slow(text, add_special_tokens=False)["input_ids"] for text in all_texts]
    differing = [text for text, own, other in zip(all_texts, ids, encodings) if own != other.ids]
    assert not differing, differing[:5]
    pair = slow("AC", "C")["input_ids"]
    assert pair == fast.encode("AC", "C").ids
    return {"name": name, "vocabulary": vocabulary, "tokenizer": json.loads(fast.to_str()), "single": slow("AC")["input_ids"], "pair": pair,
            "ids": ids, "offsets": [[x for span in e.offsets for x in span] for e in encodings]}


def main():
    all_texts = list(texts())
    cases = [case("esm", ESM, all_texts), case("hostile", HOSTILE, all_texts)]
    print(json.dumps({"made by": f"make_letters.py with transformers {transformers.__version__} and tokenizers {tokenizers.__version__}",
                      "texts": [text.encode().hex() for text in all_texts], "cases": cases}, ensure_ascii=True, separators=(",", ":")))


if __name__ == "__main__":
    main()

"""What bert_hpc hides from a masked language model (include/bert_hpc/data/masking.hpp), drawn here a second time for PyTorch: by
Philox4x32-10 of a token's position, epoch and sample, whose key comes from the seed."""

LOW, LOW_64 = 2**32 - 1, 2**64 - 1


def philox(counter, key):
    """Four words of 32 bits (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011)."""
    (a, b, c, d), (k, m) = counter, key
    for _ in range(10):
        first, second = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (second >> 32) ^ b ^ k, second & LOW, (first >> 32) ^ d ^ m, first & LOW
        k, m = (k + 0x9E3779B9) & LOW, (m + 0xBB67AE85) & LOW
    return a, b, c, d


def mix64(x):
    """The end of splitmix64."""
    x = (x + 0x9E3779B97F4A7C15) & LOW_64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & LOW_64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & LOW_64
    return x ^ (x >> 31)


def masked(ids, sample, epoch, seed, tokenizer, words, share=0.15):
    """(ids with what replaces them, hidden positions): of the tokens that are not special, `share` are hidden; of these 80% become the
    mask token, 10% one of the vocabulary's `words` pieces, 10% stay."""
    key = mix64(mix64(seed) ^ int.from_bytes(b"masking", "big"))
    special = {tokenizer[f"{name}_id"] for name in ("cls", "sep", "pad", "unk", "mask")}
    drawn = {position: philox((position, epoch, sample, 0), (key & LOW, key >> 32)) for position, token in enumerate(ids) if token not in special}
    count = min(len(drawn), max(1, int(share * len(drawn) + 0.5)))
    hidden = sorted(sorted(drawn, key=lambda position: drawn[position][:2])[:count])
    replaced = list(ids)
    for position in hidden:
        fate, piece = drawn[position][2] >> 8, drawn[position][3]
        if fate < 0.8 * 2**24:
            replaced[position] = tokenizer["mask_id"]
        elif fate < 0.9 * 2**24:
            replaced[position] = piece * words >> 32
    return replaced, hidden

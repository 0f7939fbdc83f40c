"""BERT's encoder in plain numpy and double precision, for tests against it."""

import json
import struct
from math import erf

import numpy as np

HEADS = 2


def tensors_of(path):
    """The tensors of a safetensors file, as float64."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: np.frombuffer(data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]], "<f4")
            .reshape(t["shape"]).astype(float) for name, t in header.items()}


class Bert:
    """BERT's encoder, written from Devlin et al., 2019, with the names of Transformers."""

    def __init__(self, folder):
        self.w = {name.removeprefix("bert."): value for name, value in tensors_of(folder / "model.safetensors").items()}
        self.epsilon = json.loads((folder / "config.json").read_text())["layer_norm_eps"]

    def linear(self, x, name):
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def norm(self, x, name):
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + self.epsilon)
        return scaled * self.w[name + ".weight"] + self.w[name + ".bias"]

    def layers(self, ids):
        """Hidden states (tokens, hidden) after 0, 1, … blocks."""
        e = "embeddings."
        x = (self.w[e + "word_embeddings.weight"][ids] + self.w[e + "position_embeddings.weight"][:len(ids)]
             + self.w[e + "token_type_embeddings.weight"][0])
        states = [self.norm(x, e + "LayerNorm")]
        gelu = np.vectorize(lambda v: 0.5 * v * (1 + erf(v / 2**0.5)))
        while (name := f"encoder.layer.{len(states) - 1}.") + "output.dense.weight" in self.w:
            x = states[-1]
            query, key, value = (np.array(np.split(self.linear(x, name + "attention.self." + part), HEADS, axis=1))
                                 for part in ("query", "key", "value"))
            scores = query @ key.transpose(0, 2, 1) / np.sqrt(query.shape[-1])
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            mixed = np.concatenate(list(weights / weights.sum(axis=-1, keepdims=True) @ value), axis=1)
            x = self.norm(x + self.linear(mixed, name + "attention.output.dense"), name + "attention.output.LayerNorm")
            wide = gelu(self.linear(x, name + "intermediate.dense"))
            states.append(self.norm(x + self.linear(wide, name + "output.dense"), name + "output.LayerNorm"))
        return states

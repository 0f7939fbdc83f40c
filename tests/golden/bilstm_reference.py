"""Bi-LSTM models in PyTorch with the interface of Transformers' models: what the goldens of the family "bilstm" are computed with, and
how PyTorch reads a folder that bert_hpc has written. Sequences are packed, so that padding takes no part."""

import json
import os
import types

import torch
from safetensors.torch import load_file, save_file


class BiLstm(torch.nn.Module):
    """config: the keys of config.json, with "kind": "tokens" for logits of every token, else of the sequence."""

    def __init__(self, config, kind):
        super().__init__()
        self.config, self.kind = config, kind
        layers, hidden, labels = config["num_hidden_layers"], config["hidden_size"], len(config["id2label"])
        self.embedding = torch.nn.Embedding(config["vocab_size"], config["embedding_size"], padding_idx=config["pad_token_id"])
        self.lstm = torch.nn.LSTM(config["embedding_size"], hidden, layers, batch_first=True, bidirectional=True,
                                  dropout=config["hidden_dropout_prob"] if layers > 1 else 0)
        self.dropout = torch.nn.Dropout(config["classifier_dropout"])
        self.classifier = torch.nn.Linear(2 * hidden, labels)

    def pooled(self, states, lengths):
        """(sequences, 2 · hidden) of states (sequences, longest, 2 · hidden), zeros behind each sequence."""
        pooling, half = self.config["pooling"], states.shape[-1] // 2
        if pooling == "mean":
            return states.sum(dim=1) / lengths[:, None].to(states)
        if pooling == "max":
            beyond = torch.arange(states.shape[1])[None] >= lengths[:, None]
            return states.masked_fill(beyond[..., None], float("-inf")).max(dim=1).values
        last = states[torch.arange(len(lengths)), lengths - 1]
        return torch.cat([last[:, :half], states[:, 0, half:]], dim=1)

    def forward(self, input_ids, attention_mask=None, labels=None):
        lengths = torch.full(input_ids.shape[:1], input_ids.shape[1]) if attention_mask is None else attention_mask.sum(dim=1)
        packed = torch.nn.utils.rnn.pack_padded_sequence(self.embedding(input_ids), lengths, batch_first=True, enforce_sorted=False)
        states, _ = torch.nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=input_ids.shape[1])
        logits = self.classifier(self.dropout(states if self.kind == "tokens" else self.pooled(states, lengths)))
        return types.SimpleNamespace(logits=logits, loss=None if labels is None else self.loss(logits, labels))

    def loss(self, logits, labels):
        if self.config.get("problem_type") == "regression":
            return torch.nn.functional.mse_loss(logits[:, 0], labels)
        return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), ignore_index=-100)

    def save_pretrained(self, folder):
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(self.config, file, indent=1, sort_keys=True)
        save_file({name: value.contiguous() for name, value in self.state_dict().items()},
                  os.path.join(folder, "model.safetensors"), {"format": "pt"})

    @classmethod
    def from_pretrained(cls, folder, kind):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            model = cls(json.load(file), kind)
        model.load_state_dict(load_file(os.path.join(folder, "model.safetensors")))
        return model


def config_of(vocabulary, embedding, hidden, layers, labels, pooling="ends", **more):
    """config.json without dropout. labels: names, or how many."""
    names = labels if isinstance(labels, list) else [f"LABEL_{i}" for i in range(labels)]
    return {"model_type": "bilstm", "vocab_size": vocabulary, "embedding_size": embedding, "hidden_size": hidden,
            "num_hidden_layers": layers, "hidden_dropout_prob": 0.0, "classifier_dropout": 0.0, "pooling": pooling, "pad_token_id": 0,
            "id2label": {str(i): name for i, name in enumerate(names)}, "label2id": {name: i for i, name in enumerate(names)}} | more

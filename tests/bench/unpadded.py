"""Transformers' BertForSequenceClassification over the real tokens of a batch alone: the model's own modules on rows of
all sequences, one after the other, with the best attention for sequences of different lengths that is at hand.

Attention, by preference: Flash Attention's wheel (flash_attn), PyTorch's varlen_attn (without dropout of attention's
probabilities, which makes it faster than what it stands for), PyTorch's nested tensors (SDPA). One that does not work on
this machine is passed over; the name of the one taken says what it is."""

import torch


def packed(ids, labels, device):
    """A batch of lists of token ids as rows without padding."""
    lengths = torch.tensor([len(sequence) for sequence in ids])
    ends = lengths.cumsum(0)
    return {
        "input_ids": torch.tensor([token for sequence in ids for token in sequence])[None].to(device),
        "position_ids": torch.cat([torch.arange(length) for length in lengths])[None].to(device),
        "offsets": torch.cat([torch.zeros(1, dtype=torch.long), ends]).to(torch.int32).to(device),
        "first": (ends - lengths).to(device),
        "longest": int(lengths.max()),
        "shortest": int(lengths.min()),
        "labels": torch.tensor(labels).to(device),
    }


def flash_attention():
    import flash_attn

    def attend(query, key, value, batch, dropout):
        offsets, longest = batch["offsets"], batch["longest"]
        return flash_attn.flash_attn_varlen_func(query, key, value, offsets, offsets, longest, longest, dropout_p=dropout)

    return f"flash_attn {flash_attn.__version__} varlen", attend


def varlen_attention():
    from torch.nn.attention.varlen import varlen_attn

    def attend(query, key, value, batch, dropout):
        offsets, longest = batch["offsets"], batch["longest"]
        return varlen_attn(query, key, value, offsets, offsets, longest, longest)

    return "torch varlen_attn, no attention dropout", attend


def nested_attention():
    def attend(query, key, value, batch, dropout):
        nested = [
            torch.nested.nested_tensor_from_jagged(
                x, batch["offsets"].long(), min_seqlen=batch["shortest"], max_seqlen=batch["longest"]
            ).transpose(1, 2)
            for x in (query, key, value)
        ]
        out = torch.nn.functional.scaled_dot_product_attention(*nested, dropout_p=dropout)
        return out.transpose(1, 2).values()

    return "torch nested tensors (SDPA)", attend


def choose_attention(device, storage):
    """(name, function of (tokens, heads, head_dim) query, key, value, a packed batch, dropout) of the first that does a
    small problem forward and backward there."""
    batch = packed([[1] * 5, [1] * 3], [0, 0], device)
    for make in (flash_attention, varlen_attention, nested_attention):
        try:
            name, attend = make()
            query, key, value = (torch.randn(8, 2, 64, device=device, dtype=storage, requires_grad=True) for _ in range(3))
            attend(query, key, value, batch, 0.1).sum().backward()
            if all(bool(x.grad.isfinite().all()) for x in (query, key, value)):
                return name, attend
        except Exception as error:  # noqa: BLE001: whatever keeps one from working, the next one is tried
            print(f"{make.__name__}: {(str(error) or type(error).__name__).splitlines()[0][:150]}")
    raise SystemExit(77)


def loss(model, attend, batch):
    """The classification loss of a packed batch."""
    bert, config = model.bert, model.config
    dropout = config.attention_probs_dropout_prob if model.training else 0.0
    x = bert.embeddings(input_ids=batch["input_ids"], position_ids=batch["position_ids"])
    for layer in bert.encoder.layer:
        inputs = layer.attention.self
        query, key, value = (
            linear(x).view(x.shape[1], config.num_attention_heads, -1) for linear in (inputs.query, inputs.key, inputs.value)
        )
        context = attend(query, key, value, batch, dropout).reshape(x.shape)
        x = layer.attention.output(context, x)
        x = layer.output(layer.intermediate(x), x)
    pooled = bert.pooler(x[0, batch["first"]][:, None])
    logits = model.classifier(model.dropout(pooled))
    return torch.nn.functional.cross_entropy(logits.float(), batch["labels"])

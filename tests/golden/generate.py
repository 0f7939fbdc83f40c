#!/usr/bin/env python3
"""Golden numbers for the model tests: small random encoders of Hugging Face Transformers, computed in float64; and Bi-LSTMs
of PyTorch (bilstm_reference.py).

For each task a folder bert/TASK with
  config.json, model.safetensors   the initial model as Transformers' own save_pretrained writes it (float32: the
                                   weights are drawn in float32, so both sides start from exactly the same numbers)
  golden.safetensors               unpadded batches and, from float64 arithmetic,
      logits, row_loss, loss       of batch 0 with the initial weights, dropout off (question answering: row_loss of sequences)
      gradient.NAME                of the loss (sum over the batch / its count), rounded to float32 to keep files small
      adamw.loss, adamw.norm       of 20 steps of AdamW, and the gradient's norm before clipping
      adamw.value.NAME             the weights after those steps, rounded to float32

    python3 generate.py [TASK...]  all tasks by default; needs torch and transformers, whose versions are printed and
                                   stored in the files

Answer ranking has the losses of sentence-transformers' cross-encoders: of pairs BinaryCrossEntropyLoss; of a query's candidates, whose
row_loss is of queries, ListNetLoss with equal shares of what is relevant.

In question answering each sequence is computed alone: in a padded batch Transformers' softmax over a sequence's tokens
has terms of its padding. So is each of ModernBERT's (see loss_of_sequences).

Files of one machine's run are committed; another machine's may differ in the last bits of float64.
"""

import json
import os
import pathlib
import shutil
import sys

import bilstm_reference
import numpy
import torch
import transformers
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 20
# Lengths of every batch: the longest a model takes, single tokens, and everything between.
LENGTHS = [
    [64, 1, 2, 33, 7, 64, 17, 1],
    [5, 64, 12, 1, 3, 9],
    [1, 1, 1],
    [40, 22, 8, 8, 31, 2, 16],
    [64],
]
ADAMW = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8)
WEIGHT_DECAY = 0.01
MAX_NORM = 1.0
IGNORED = -100  # label of a token that is not predicted
UNREAD = "contact_head"  # part of the names of ESM's parameters that no head here reads
ESM_MASK = 96  # token whose embeddings are zeros, and which scales those of its sequence
TASKS = {
    # layers differ to keep the files small; 12 columns a head are no multiple of any vector width
    "classification": dict(layers=3, labels=5, keep_values=True),
    "regression": dict(layers=1, labels=1, keep_values=False),
    "masked_lm": dict(layers=2, labels=2, keep_values=True),
    "multi_label": dict(layers=1, labels=5, keep_values=False),
    "question_answering": dict(layers=1, labels=2, keep_values=False),
    "distilbert_classification": dict(layers=2, labels=5, keep_values=False),
    "distilbert_question_answering": dict(layers=1, labels=2, keep_values=False),
    "token_classification": dict(layers=1, labels=5, keep_values=False),
    "distilbert_token_classification": dict(layers=1, labels=5, keep_values=False),
    "answer_ranking": dict(layers=1, labels=1, keep_values=False),
    "answer_ranking_listwise": dict(layers=1, labels=1, keep_values=False),
    "roberta_classification": dict(layers=2, labels=5, keep_values=False),
    "roberta_masked_lm": dict(layers=1, labels=2, keep_values=False),
    "roberta_token_classification": dict(layers=1, labels=5, keep_values=False),
    "electra_classification": dict(layers=2, labels=5, keep_values=False),
    "electra_masked_lm": dict(layers=1, labels=2, keep_values=False),
    "gpt2_classification": dict(layers=2, labels=5, keep_values=False),
    "gpt2_regression": dict(layers=1, labels=1, keep_values=False),
    "gpt2_token_classification": dict(layers=1, labels=5, keep_values=False),
    "gpt2_causal_lm": dict(layers=2, labels=2, keep_values=True),
    "bilstm_classification": dict(layers=2, labels=5, keep_values=True, pooling="ends"),
    "bilstm_regression": dict(layers=1, labels=1, keep_values=False, pooling="mean"),
    "bilstm_token_classification": dict(layers=2, labels=5, keep_values=False, pooling="ends"),
    "bilstm_classification_max": dict(layers=1, labels=5, keep_values=False, pooling="max"),
    # layers 0 and 2 attend to all tokens, layer 1 to a window of 9
    "modernbert_classification": dict(layers=3, labels=5, keep_values=True, pooling="cls"),
    "modernbert_classification_mean": dict(layers=2, labels=5, keep_values=False, pooling="mean"),
    "modernbert_masked_lm": dict(layers=2, labels=2, keep_values=False, pooling="cls"),
    "modernbert_token_classification": dict(layers=1, labels=5, keep_values=False, pooling="mean"),
    "modernbert_question_answering": dict(layers=1, labels=2, keep_values=False, pooling="cls"),
    "nomic_bert_classification": dict(layers=2, labels=5, keep_values=False),
    "nomic_bert_masked_lm": dict(layers=1, labels=2, keep_values=False),
    "esm_classification": dict(layers=2, labels=5, keep_values=False),
    "esm_masked_lm": dict(layers=1, labels=2, keep_values=False),
    "esm_token_classification": dict(layers=1, labels=5, keep_values=False),
    "mpnet_classification": dict(layers=2, labels=5, keep_values=False),
    "mpnet_masked_lm": dict(layers=1, labels=2, keep_values=False),
    "mpnet_token_classification": dict(layers=1, labels=5, keep_values=False),
    "mpnet_question_answering": dict(layers=1, labels=2, keep_values=False),
    # embeddings of fewer columns than the encoder, and of more, as those of the small model and of generators
    "electra_classification_small": dict(layers=1, labels=5, keep_values=False, embeddings=20),
    "electra_masked_lm_wide": dict(layers=1, labels=2, keep_values=False, embeddings=64),
    # blocks 0 and 1 have the same parameters, block 2 others; then all blocks the same
    "albert_classification": dict(layers=3, labels=5, keep_values=True, embeddings=20, groups=2),
    "albert_masked_lm": dict(layers=2, labels=2, keep_values=False, embeddings=20),
    "albert_token_classification": dict(layers=2, labels=5, keep_values=False, embeddings=48),
    "albert_question_answering": dict(layers=1, labels=2, keep_values=False, embeddings=20),
    "roberta_regression": dict(layers=1, labels=1, keep_values=False),
    "roberta_multi_label": dict(layers=1, labels=5, keep_values=False),
    "roberta_question_answering": dict(layers=1, labels=2, keep_values=False),
    "roberta_answer_ranking": dict(layers=1, labels=1, keep_values=False),
    "roberta_answer_ranking_listwise": dict(layers=1, labels=1, keep_values=False),
    "eurobert_classification": dict(layers=2, labels=5, keep_values=True, pooling="late"),
    "eurobert_classification_mean": dict(layers=1, labels=5, keep_values=False, pooling="mean"),
    "eurobert_regression": dict(layers=1, labels=1, keep_values=False, pooling="bos"),
    "eurobert_masked_lm": dict(layers=2, labels=2, keep_values=False, pooling="late"),
    "eurobert_token_classification": dict(layers=1, labels=5, keep_values=False, pooling="late"),
    # two heads of queries share one of keys and values; four do
    "eurobert_classification_shared": dict(layers=2, labels=5, keep_values=False, pooling="bos", key_heads=2),
    "eurobert_masked_lm_shared": dict(layers=1, labels=2, keep_values=False, pooling="late", key_heads=1),
    "masked_lm_pairs": dict(layers=2, labels=2, keep_values=True),
    "albert_masked_lm_pairs": dict(layers=2, labels=2, keep_values=False, embeddings=20),
    # of 24 distances, longer ones have buckets beyond the last row, which serves them too
    "deberta_classification": dict(layers=2, labels=5, keep_values=False),
    "deberta_masked_lm": dict(layers=1, labels=2, keep_values=False),
    "deberta_token_classification": dict(layers=1, labels=5, keep_values=False, distances=24),
    "deberta_question_answering": dict(layers=1, labels=2, keep_values=False),
}
CLASSES = {
    "classification": "ForSequenceClassification",
    "regression": "ForSequenceClassification",
    "multi_label": "ForSequenceClassification",
    "masked_lm": "ForMaskedLM",
    "masked_lm_pairs": "ForPreTraining",
    "causal_lm": "LMHeadModel",
    "question_answering": "ForQuestionAnswering",
    "token_classification": "ForTokenClassification",
    "answer_ranking": "ForSequenceClassification",
    "answer_ranking_listwise": "ForSequenceClassification",
}
PROBLEM_TYPES = {"regression": "regression", "multi_label": "multi_label_classification"}
FAMILIES = {  # before a task's name; else BERT
    "distilbert": "DistilBert",
    "roberta": "Roberta",
    "electra": "Electra",
    "gpt2": "GPT2",
    "modernbert": "ModernBert",
    "nomic_bert": "NomicBert",
    "esm": "Esm",
    "eurobert": "EuroBert",
    "mpnet": "MPNet",
    "albert": "Albert",
    "deberta": "DebertaV2",
    "bilstm": "BiLstm",
}


# Parts of the names of parameters, and those of tensors in files; queries, keys and values follow one another in one tensor.
NOMIC_NAMES = [(f"self_attn.{part}_proj", "attn.Wqkv") for part in "qkv"] + [
    ("self_attn.o_proj", "attn.out_proj"),
    ("gate_proj", "fc12"),
    ("up_proj", "fc11"),
    ("down_proj", "fc2"),
    ("post_attention_layernorm", "norm1"),
    ("post_mlp_layernorm", "norm2"),
    ("embeddings.LayerNorm", "emb_ln"),
    ("nomic_bert.layers", "nomic_bert.encoder.layers"),
]


def family_of(task):
    return next((family for family in FAMILIES if task.startswith(family + "_")), "bert")


def kind_of(task):
    return task.removeprefix(family_of(task) + "_").removesuffix("_max").removesuffix("_mean").removesuffix("_small").removesuffix("_wide").removesuffix("_shared")


def padding_of(task):
    return 1 if family_of(task) in ("roberta", "esm", "mpnet") else 0


def make_config(task, settings):
    common = dict(vocab_size=97, max_position_embeddings=64, num_labels=settings["labels"], attn_implementation="eager")
    if kind_of(task) in PROBLEM_TYPES:
        common["problem_type"] = PROBLEM_TYPES[kind_of(task)]
    family = family_of(task)
    sizes = dict(hidden_size=48, num_hidden_layers=settings["layers"], num_attention_heads=4, intermediate_size=80)
    if family == "distilbert":
        dropout = dict.fromkeys(["dropout", "attention_dropout", "seq_classif_dropout", "qa_dropout"], 0.0)
        return transformers.DistilBertConfig(
            dim=48, n_layers=settings["layers"], n_heads=4, hidden_dim=80, **dropout, **common
        )
    if family == "gpt2":  # the padding token is that of a batch here; no text has it
        del common["max_position_embeddings"]
        dropout = dict.fromkeys(["resid_pdrop", "embd_pdrop", "attn_pdrop", "classifier_dropout"], 0.0)
        special = dict(pad_token_id=0, bos_token_id=96, eos_token_id=96)
        return transformers.GPT2Config(
            n_embd=48, n_layer=settings["layers"], n_head=4, n_inner=80, n_positions=64, **dropout, **special, **common
        )
    if family == "esm":
        return transformers.EsmConfig(
            **sizes,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            layer_norm_eps=1e-5,  # a mask token's row of zeros is divided by its root
            position_embedding_type="rotary",
            token_dropout=True,
            mask_token_id=ESM_MASK,
            pad_token_id=padding_of(task),
            **common,
        )
    if family == "eurobert":
        return transformers.EuroBertConfig(
            **sizes,
            classifier_pooling=settings["pooling"],
            num_key_value_heads=settings.get("key_heads", 4),
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            mask_token_id=3,
            **common,
        )
    if family == "modernbert":
        special = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2)
        return transformers.ModernBertConfig(
            **sizes,
            local_attention=8,
            global_attn_every_n_layers=2,
            classifier_pooling=settings["pooling"],
            **special,
            **common,
        )
    if family == "mpnet":  # its positions begin after padding's row
        common["max_position_embeddings"] += padding_of(task) + 1
        return transformers.MPNetConfig(
            **sizes,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            **common,
        )
    if family == "deberta":  # DeBERTa-v3's; a distance up to 4 has its own bucket, longer ones share three
        config = transformers.DebertaV2Config(
            **sizes,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            relative_attention=True,
            position_buckets=8,
            max_relative_positions=settings.get("distances", -1),  # -1: of all positions
            pos_att_type=["p2c", "c2p"],
            share_att_key=True,
            norm_rel_ebd="layer_norm",
            position_biased_input=False,
            type_vocab_size=0,
            layer_norm_eps=1e-7,
            **common,
        )
        if kind_of(task) == "classification":  # as in files of the hub; Transformers writes the list
            config.pos_att_type = "p2c|c2p"
        return config
    types = 2
    if family == "roberta":  # its positions begin after padding's row; every token has one type
        common["max_position_embeddings"] += padding_of(task) + 1
        types = 1
    elif family == "electra":
        common["embedding_size"] = settings.get("embeddings", 48)
    elif family == "albert":
        common |= dict(embedding_size=settings["embeddings"], num_hidden_groups=settings.get("groups", 1), classifier_dropout_prob=0.0)
    return getattr(transformers, FAMILIES.get(family, "Bert") + "Config")(
        **sizes,
        type_vocab_size=types,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        **common,
    )


def make_bilstm(task, settings):
    more = {"problem_type": PROBLEM_TYPES[kind_of(task)]} if kind_of(task) in PROBLEM_TYPES else {}
    # 20 and 24 columns are no multiple of any vector width
    config = bilstm_reference.config_of(97, 20, 24, settings["layers"], settings["labels"], settings["pooling"], **more)
    return bilstm_reference.BiLstm(config, "tokens" if kind_of(task) == "token_classification" else "sequence")


def is_bias(name):
    return name.split(".")[-1].startswith("bias") or "relative_attention_bias" in name


def is_norm(name):
    return "layernorm" in name.lower() or "layer_norm" in name or ".ln_" in name or name.endswith("norm.weight")


def make_model(task, settings, random):
    if family_of(task) == "bilstm":
        model = make_bilstm(task, settings)
    else:
        name = FAMILIES.get(family_of(task), "Bert") + CLASSES[kind_of(task)]
        model = getattr(transformers, name)(make_config(task, settings))
    # Far larger than BERT's initial 0.02, so that attention is uneven, GELU is bent and every gradient counts.
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = random.standard_normal(tuple(parameter.shape)).astype(numpy.float32)
            if is_norm(name) and name.endswith("weight"):
                values = numpy.float32(1) + numpy.float32(0.2) * values
            elif "relative_attention_bias" in name:  # beside scores of about 1
                pass
            elif is_bias(name):
                values = numpy.float32(0.1) * values
            elif "project" in name or "mapping" in name:  # its result is about as large as that of a norm
                values = numpy.float32(0.12) * values
            elif "embedding" in name or ".wte." in name or ".wpe." in name:
                values = numpy.float32(0.5) * values
            else:
                values = numpy.float32(0.18) * values
            parameter.copy_(torch.from_numpy(values))
    return model


def make_batch(task, settings, lengths, random):
    """One batch, unpadded: what our side reads."""
    if kind_of(task) == "causal_lm":  # a batch without a second token has nothing to predict
        lengths = lengths[:-1] + [max(2, lengths[-1])] if max(lengths) == 1 else lengths
    if kind_of(task) == "masked_lm_pairs":  # a sequence's first token is not masked
        lengths = [max(2, length) for length in lengths]
    batch = {"offsets": numpy.cumsum([0] + lengths).astype(numpy.int32)}
    tokens = sum(lengths)
    # Never the padding: torch.nn.Embedding leaves it without a gradient, and no real token has it.
    batch["input_ids"] = random.integers(padding_of(task) + 1, 97, tokens).astype(numpy.int32)
    if family_of(task) == "esm":  # a sequence of mask tokens alone has NaN
        middle = numpy.setdiff1d(numpy.arange(tokens), [batch["offsets"][:-1], batch["offsets"][1:] - 1])
        batch["input_ids"][batch["input_ids"] == ESM_MASK] = 2
        batch["input_ids"][middle[random.random(len(middle)) < 0.15]] = ESM_MASK
    batch["token_type_ids"] = numpy.concatenate(
        # every second sequence is a pair whose second text begins anywhere but at the first token
        [
            (numpy.arange(n) >= random.integers(1, n + 1)) if i % 2 == 0 else numpy.zeros(n, bool)
            for i, n in enumerate(lengths)
        ]
    ).astype(numpy.int32)
    if kind_of(task) == "classification":
        batch["labels"] = random.integers(0, settings["labels"], len(lengths)).astype(numpy.int32)
    elif kind_of(task) == "regression":
        batch["values"] = (3 * random.standard_normal(len(lengths))).astype(numpy.float32)
    elif kind_of(task) == "multi_label":  # an empty set among them
        batch["values"] = (random.random((len(lengths), settings["labels"])) < 0.4).astype(numpy.float32)
    elif kind_of(task).startswith("answer_ranking"):
        batch["values"] = (random.random(len(lengths)) < 0.4).astype(numpy.float32)
        if kind_of(task) == "answer_ranking_listwise":  # two queries, or one, of which the last candidate is relevant
            middle = len(lengths) // 2
            batch["lists"] = numpy.array([[0, middle], [middle, len(lengths)]][middle == 0 :]).astype(numpy.int32)
            batch["values"][batch["lists"][:, 1] - 1] = 1
    elif kind_of(task) == "question_answering":
        ends = numpy.sort(random.integers(0, numpy.array(lengths)[:, None], (len(lengths), 2)), axis=1)
        ends[::3] = 0  # no answer: the first token
        batch["spans"] = ends.astype(numpy.int32)
    elif kind_of(task) == "causal_lm":  # all rows but the last of each sequence, and the token after each
        batch["masked_rows"] = numpy.setdiff1d(numpy.arange(tokens), batch["offsets"] - 1).astype(numpy.int32)
        batch["masked_labels"] = batch["input_ids"][batch["masked_rows"] + 1]
    else:
        of_words = kind_of(task) == "token_classification"
        masked = random.random(tokens) < (0.6 if of_words else 0.15)
        if kind_of(task) == "masked_lm_pairs":
            masked[batch["offsets"][:-1]] = False
            batch["labels"] = random.integers(0, 2, len(lengths)).astype(numpy.int32)
        masked[-1] = True  # at least one; the last token of the batch is the easiest to lose
        batch["masked_rows"] = numpy.flatnonzero(masked).astype(numpy.int32)
        batch["masked_labels"] = random.integers(0, settings["labels"] if of_words else 97, masked.sum()).astype(numpy.int32)
    return batch


def padded(task, batch):
    """The same batch as Transformers takes it: padded to the longest, with an attention mask. DistilBERT, GPT-2, ModernBERT, EuroBERT, ESM, MPNet and DeBERTa-v3 have no types, RoBERTa one."""
    offsets = batch["offsets"]
    lengths = numpy.diff(offsets)
    shape = (len(lengths), int(lengths.max()))
    arguments = {name: torch.zeros(shape, dtype=torch.long) for name in ("input_ids", "token_type_ids", "attention_mask")}
    arguments["input_ids"] += padding_of(task)
    labels = torch.full((int(offsets[-1]),), IGNORED)  # of each row
    if "masked_rows" in batch:
        labels[torch.from_numpy(batch["masked_rows"]).long()] = torch.from_numpy(batch["masked_labels"]).long()
        arguments["labels"] = torch.full(shape, IGNORED)
    for i, n in enumerate(lengths):
        rows = slice(int(offsets[i]), int(offsets[i + 1]))
        arguments["input_ids"][i, :n] = torch.from_numpy(batch["input_ids"][rows]).long()
        arguments["token_type_ids"][i, :n] = torch.from_numpy(batch["token_type_ids"][rows]).long()
        arguments["attention_mask"][i, :n] = 1
        if "masked_rows" in batch:
            arguments["labels"][i, :n] = labels[rows]
    if "labels" in batch and "masked_rows" not in batch:
        arguments["labels"] = torch.from_numpy(batch["labels"]).long()
    if "values" in batch:
        arguments["labels"] = torch.from_numpy(batch["values"]).double()
    if family_of(task) in ("distilbert", "roberta", "gpt2", "modernbert", "eurobert", "esm", "mpnet", "deberta", "bilstm"):
        del arguments["token_type_ids"]
    return arguments


def loss_of_sequences(task, model, batch):
    """Of sequences computed alone: Transformers' attention in a window makes NaN of padding that sees no token, which the
    mean of a sequence's rows takes over."""
    arguments = padded(task, batch)
    labels = arguments.pop("labels")
    logits = []
    for i, length in enumerate(numpy.diff(batch["offsets"])):
        logits.append(model(**{name: value[i : i + 1, :length] for name, value in arguments.items()}).logits)
    if "masked_rows" in batch:
        logits = torch.cat([rows[0] for rows in logits])[torch.from_numpy(batch["masked_rows"]).long()]
        labels = torch.from_numpy(batch["masked_labels"]).long()
    else:
        logits = torch.cat(logits)
    return logits, torch.nn.functional.cross_entropy(logits, labels, reduction="none")


def loss_of_spans(task, model, batch):
    """Logits of all tokens, (tokens, 2), and the loss of each sequence."""
    arguments = padded(task, batch)
    logits, losses = [], []
    for i, length in enumerate(numpy.diff(batch["offsets"])):
        one = {name: value[i : i + 1, :length] for name, value in arguments.items()}
        first, last = torch.from_numpy(batch["spans"][i]).long()
        output = model(**one, start_positions=first.reshape(1), end_positions=last.reshape(1))
        logits.append(torch.stack([output.start_logits[0], output.end_logits[0]], dim=-1))
        losses.append(output.loss)
    return torch.cat(logits), torch.stack(losses)


def loss_of_pairs(model, batch, arguments):
    """Raw scores, and the loss of each pair or of each query."""
    relevant = arguments.pop("labels")  # with which Transformers would take one label for a regression
    logits = model(**arguments).logits
    if "lists" not in batch:
        return logits, torch.nn.functional.binary_cross_entropy_with_logits(logits[:, 0], relevant, reduction="none")
    losses = []
    for begin, end in batch["lists"]:
        shares = relevant[begin:end] / relevant[begin:end].sum()
        losses.append(torch.nn.functional.cross_entropy(logits[begin:end, 0][None], shares[None]))
    return logits, torch.stack(losses)


def loss_of_masked_pairs(task, model, batch):
    """Logits of masked tokens with those of the pairs, losses of both, and the loss, as of BertForPreTraining."""
    arguments = padded(task, batch)
    labels, pairs = arguments["labels"], torch.from_numpy(batch["labels"]).long()
    name = "sentence_order_label" if family_of(task) == "albert" else "next_sentence_label"
    output = model(**arguments, **{name: pairs})
    of_pairs = output.sop_logits if family_of(task) == "albert" else output.seq_relationship_logits
    logits = output.prediction_logits[labels != IGNORED]
    losses = [torch.nn.functional.cross_entropy(*each, reduction="none") for each in ((logits, labels[labels != IGNORED]), (of_pairs, pairs))]
    assert abs(sum(each.mean() for each in losses) - output.loss).item() < 1e-12
    return (logits, of_pairs), torch.cat(losses), output.loss


def loss_of(task, model, batch):
    """Logits of the rows that count, their losses, the loss."""
    if kind_of(task) == "masked_lm_pairs":
        return loss_of_masked_pairs(task, model, batch)
    if kind_of(task).startswith("answer_ranking"):
        logits, row_loss = loss_of_pairs(model, batch, padded(task, batch))
        return logits, row_loss, row_loss.mean()
    if "spans" in batch:
        logits, row_loss = loss_of_spans(task, model, batch)
        return logits, row_loss, row_loss.mean()
    if family_of(task) == "modernbert":
        logits, row_loss = loss_of_sequences(task, model, batch)
        return logits, row_loss, row_loss.mean()
    arguments = padded(task, batch)
    labels = arguments["labels"]
    if kind_of(task) == "causal_lm":  # Transformers takes the tokens themselves for labels, and shifts them
        arguments["labels"] = torch.where(arguments["attention_mask"] == 1, arguments["input_ids"], IGNORED)
    output = model(**arguments)
    logits, arguments["labels"] = output.logits, labels
    if "masked_rows" in batch:
        logits, labels = logits[arguments["labels"] != IGNORED], labels[arguments["labels"] != IGNORED]
    if kind_of(task) == "regression":
        row_loss = (logits[:, 0] - labels) ** 2
    elif kind_of(task) == "multi_label":
        row_loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="none").mean(dim=1)
    else:
        row_loss = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    if kind_of(task) == "causal_lm" or task.startswith(("eurobert_masked_lm", "deberta_classification")):  # Transformers computes this loss in float32
        assert abs(row_loss.mean().item() - output.loss.item()) < 1e-6 * output.loss.item()
        return logits, row_loss, row_loss.mean()
    assert abs(row_loss.mean().item() - output.loss.item()) < 1e-12
    return logits, row_loss, output.loss


def as_stored(task, values):
    """{name: array} of parameters under the names of the tensors that hold them in files."""
    if family_of(task) != "nomic_bert":
        return values
    stored = {}
    for name, value in values.items():
        for ours, in_files in NOMIC_NAMES:
            name = name.replace(ours, in_files)
        stored[name] = numpy.concatenate([stored[name], value]) if name in stored else value
    return stored


def first_pass(task, model, batch):
    """Logits of the rows that count, their losses, the loss, and every gradient."""
    model.zero_grad()
    logits, row_loss, loss = loss_of(task, model, batch)
    loss.backward()
    golden = {"logits": logits, "row_loss": row_loss, "loss": loss.reshape(1)}
    if isinstance(logits, tuple):
        golden["logits"], golden["sequence_logits"] = logits
    golden = {name: value.detach().numpy().copy() for name, value in golden.items()}
    gradients = {
        name: parameter.grad.numpy().astype(numpy.float32)
        for name, parameter in model.named_parameters()
        if UNREAD not in name
    }
    for name, value in as_stored(task, gradients).items():
        golden["gradient." + name] = value
    return golden


def train(task, model, batches):
    decayed = [p for n, p in model.named_parameters() if not (is_bias(n) or is_norm(n))]
    others = [p for n, p in model.named_parameters() if is_bias(n) or is_norm(n)]
    optimizer = torch.optim.AdamW(
        [dict(params=decayed, weight_decay=WEIGHT_DECAY), dict(params=others, weight_decay=0.0)], **ADAMW
    )
    losses, norms = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(task, model, batches[step % len(batches)])[-1]
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM).item())
        optimizer.step()
        losses.append(loss.item())
    return numpy.array(losses), numpy.array(norms)


def main():
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "numpy": numpy.__version__}
    print(json.dumps(versions))
    unknown = set(sys.argv[1:]) - set(TASKS)
    if unknown:
        sys.exit(f"no such task: {', '.join(sorted(unknown))}; there are {', '.join(TASKS)}")
    for number, (task, settings) in enumerate(TASKS.items()):  # new ones last: the number is the seed
        if sys.argv[1:] and task not in sys.argv[1:]:
            continue
        random = numpy.random.Generator(numpy.random.Philox(20240517 + number))
        folder = os.path.join(HERE, "bert", task)
        shutil.rmtree(folder, ignore_errors=True)
        model = make_model(task, settings, random)
        model.save_pretrained(folder)
        pathlib.Path(folder, "generation_config.json").unlink(missing_ok=True)  # of models that generate text
        model = model.double().train()
        batches = [make_batch(task, settings, lengths, random) for lengths in LENGTHS]
        golden = {f"batch{i}.{name}": value for i, batch in enumerate(batches) for name, value in batch.items()}
        golden.update(first_pass(task, model, batches[0]))
        golden["adamw.loss"], golden["adamw.norm"] = train(task, model, batches)
        if settings["keep_values"]:
            for name, parameter in model.named_parameters():
                if UNREAD not in name:
                    golden["adamw.value." + name] = parameter.detach().numpy().astype(numpy.float32)
        metadata = {name: str(value) for name, value in versions.items()}
        metadata["recipe"] = json.dumps(dict(ADAMW, weight_decay=WEIGHT_DECAY, max_norm=MAX_NORM, steps=STEPS))
        golden = {name: numpy.ascontiguousarray(value) for name, value in golden.items()}
        save_file(golden, os.path.join(folder, "golden.safetensors"), metadata)
        print(task, "loss", golden["loss"][0], "losses", golden["adamw.loss"].round(4).tolist())
        print(task, "norms", golden["adamw.norm"].round(3).tolist())


if __name__ == "__main__":
    main()

"""Small trainings that Transformers and PEFT repeat step by step: their texts, shards, first models and inputs. Everything here is
made without torch, so that golden results (golden/training) guard them on machines that have neither library."""

import hashlib
import json
import pathlib
import random
import shutil
import tempfile
import unittest

import h5py
import numpy as np

import test_answer_ranking as ranking
from program import MPIRUN, run, sentences, toml, write_tsv
from saved import values_of
from test_question_answering import WORDS

STEPS, BATCH, MAX_TOKENS, OVERLAP, RATE = 50, 16, 40, 8, 5e-4
SEED, EVALUATION_SEED = 1, 0  # of masks
HIDDEN, LAYERS, HEADS, INNER = 64, 2, 2, 128
LISTWISE = "answer_ranking_listwise"  # answer_ranking with the other loss
BOUNDED = "regression_within_range"  # regression with the range of the labels
COLUMNS = "columns_regression"  # regression on several label columns, some of whose labels are missing
# Task names of the input, if they differ, and the label column of the table.
TASKS = {LISTWISE: "answer_ranking", BOUNDED: "regression", COLUMNS: "regression", "electra_regression": "regression", "mpnet_regression": "regression", "roberta_classification": "classification", "albert_classification": "classification", "deberta_classification": "classification",
         "gpt2_causal_lm": "causal_lm", "modernbert_classification": "classification", "bilstm_classification": "classification", "embedding_symmetric": "embedding",
         **dict.fromkeys(["embedding_scores", "embedding_negatives", "embedding_triplets", "embedding_triplet_columns", "embedding_margins", "embedding_duplicates"], "embedding"),
         **dict.fromkeys(["class_embedding", "class_embedding_soft_margin", "class_embedding_semi_hard", "class_embedding_all"], "class_embedding")}
LABELS = {"classification": "label", "roberta_classification": "label", "albert_classification": "label", "deberta_classification": "label", "modernbert_classification": "label", "regression": "score", BOUNDED: "score", COLUMNS: ["score", "size", "vowels"],
          "electra_regression": "score", "mpnet_regression": "score", "bilstm_classification": "label", "multi_label": "labels", "token_classification": "tags"}
# [task] of embeddings.
EMBEDDINGS = {"embedding": {}, "embedding_symmetric": {"symmetric": True, "scale": 10.0, "pooling": "cls"},
              "embedding_negatives": {"dimensions": [48, 20]},
              "embedding_scores": {"loss": "cosine_similarity", "range": [0.0, 5.5], "pooling": "max"},
              "embedding_triplets": {"loss": "triplet", "similarity": "euclidean", "margin": 5.0},
              "embedding_triplet_columns": {"loss": "triplet", "margin": 0.6, "dimensions": [64, 20]},
              "embedding_margins": {"loss": "margin_mse", "pooling": "cls"},
              "embedding_duplicates": {"skip_duplicates": True, "symmetric": True}}
# The same of embeddings of texts with classes.
CLASS_EMBEDDINGS = {"class_embedding": {"similarity": "euclidean"},
                    "class_embedding_soft_margin": {"loss": "batch_hard_soft_margin_triplet", "similarity": "euclidean", "pooling": "cls"},
                    "class_embedding_semi_hard": {"loss": "batch_semi_hard_triplet", "similarity": "cosine", "margin": 0.4},
                    "class_embedding_all": {"loss": "batch_all_triplet", "similarity": "euclidean", "margin": 2.5}}
LABELS |= dict.fromkeys(CLASS_EMBEDDINGS, "label")
# [source] of embeddings.
EMBEDDING_SOURCES = {"embedding_scores": {"label": "score"}, "embedding_negatives": {"negatives": ["near", "far"]},
                     "embedding_triplets": {"negatives": ["near", "far"]}, "embedding_triplet_columns": {"negatives": ["near", "far"]},
                     "embedding_margins": {"label": "score", "negatives": ["near"]},
                     "embedding_duplicates": {"text": "topic", "text_pair": "ends", "negatives": ["far"]}}
CASES = [*LABELS, "answer_ranking", LISTWISE, "question_answering", "gpt2_causal_lm", *EMBEDDINGS]
FAMILIES = {"electra": "Electra", "albert": "Albert", "deberta": "DebertaV2", "roberta": "Roberta", "mpnet": "MPNet", "gpt2": "GPT2", "modernbert": "ModernBert", "bilstm": "BiLstm"}  # before a task's name; else BERT
CLASSES = dict.fromkeys([*EMBEDDINGS, *CLASS_EMBEDDINGS], "Model") | {"question_answering": "ForQuestionAnswering", "token_classification": "ForTokenClassification", "gpt2_causal_lm": "LMHeadModel", "masked_lm": "ForMaskedLM"}
PROBLEMS = {"regression": "regression", BOUNDED: "regression", COLUMNS: "regression", "electra_regression": "regression", "mpnet_regression": "regression", "multi_label": "multi_label_classification"}
# LoRA: 20 steps with each of these adapters, of classification unless they name another task.
LORA_STEPS, LORA_RATE = 20, 5e-3
ADAPTERS = {
    "usual": {"rank": 8, "alpha": 16.0},
    "all_layers": {"rank": 4, "alpha": 6.0, "rslora": True},
    "some": {"rank": 2, "alpha": 8.0},
    "magnitudes": {"rank": 4, "alpha": 6.0, "dora": True},
    "gpt2": {"rank": 4, "alpha": 6.0, "task": "gpt2_causal_lm"},
    "gpt2_magnitudes": {"rank": 4, "alpha": 6.0, "dora": True, "task": "gpt2_causal_lm"},
    "modernbert": {"rank": 4, "alpha": 6.0, "task": "modernbert_classification"},
    "albert": {"rank": 4, "alpha": 6.0, "task": "albert_classification"},
    # With rank 4 and alpha 6 a gradient of the pooler is 5e-9 in the first step: rounding would decide about AdamW's step.
    "deberta": {"rank": 8, "alpha": 16.0, "task": "deberta_classification"},
}
TARGETS = {"usual": ["query", "value"], "some": ["key", "intermediate.dense"],
           "magnitudes": ["query", "key", "intermediate.dense", "output.dense"],
           "modernbert": ["Wqkv", "Wi", "Wo"], "albert": ["query", "value", "ffn"], "deberta": ["query_proj", "key_proj", "value_proj"], "gpt2": ["c_attn"], "gpt2_magnitudes": ["c_attn", "attn.c_proj", "c_fc"],
           "all_layers": ["query", "key", "value", "attention.output.dense", "intermediate.dense", "output.dense"]}
# Distillation: 20 steps beside a teacher of three blocks, of the task of this name unless they name another.
DISTILLED_STEPS, TEACHER_LAYERS = 20, 3
DISTILLED = {
    "classification": {"losses": ["kl", "mse_logits"], "temperature": 2.0, "alpha": 0.7},
    "multi_label": {"losses": ["kl", "mse_logits"], "temperature": 3.0, "alpha": 0.5},
    "regression": {"losses": ["mse_logits"], "alpha": 0.9},
    "answer_ranking": {"losses": ["kl", "mse_logits", "hidden_mse", "hidden_cosine", "attention_mse"], "temperature": 1.5, "alpha": 0.6},
    LISTWISE: {"losses": ["kl", "mse_logits", "margin_mse"], "temperature": 2.0, "alpha": 0.8},
    "token_classification": {"losses": ["kl", "mse_logits"], "temperature": 2.0, "alpha": 0.5},
    "question_answering": {"losses": ["kl", "mse_logits", "hidden_mse", "hidden_cosine", "attention_mse"], "temperature": 2.0, "alpha": 0.5},
    "states": {"task": "classification", "losses": ["hidden_mse", "hidden_cosine"], "alpha": 0.6},
    "states_multi_label": {"task": "multi_label", "losses": ["hidden_mse", "hidden_cosine", "attention_mse"], "alpha": 0.7},
    "states_regression": {"task": "regression", "losses": ["mse_logits", "hidden_mse", "hidden_cosine", "attention_mse"], "alpha": 0.5},
    "states_words": {"task": "token_classification", "losses": ["kl", "hidden_mse", "hidden_cosine"], "layer_map": [0, 1],
                     "match_embeddings": False, "alpha": 0.5, "temperature": 2.0},
    "states_answers": {"task": "question_answering", "losses": ["mse_logits", "hidden_mse", "hidden_cosine"], "layer_map": [2, 0], "alpha": 0.5},
    "states_ranking": {"task": LISTWISE, "losses": ["margin_mse", "hidden_mse", "hidden_cosine", "attention_mse"], "alpha": 0.8},
    "states_projected": {"task": "token_classification", "narrow": True, "losses": ["kl", "hidden_mse"], "alpha": 0.5, "temperature": 2.0},
    "masked_lm": {"losses": ["kl", "mse_logits", "hidden_mse", "hidden_cosine", "attention_mse"], "temperature": 2.0, "alpha": 0.7},
    "causal_lm": {"task": "gpt2_causal_lm", "losses": ["kl", "mse_logits"], "temperature": 2.0, "alpha": 0.5},
    "attention": {"task": "classification", "losses": ["kl", "attention_mse"], "alpha": 0.5, "temperature": 2.0},
    "attention_words": {"task": "token_classification", "losses": ["attention_mse", "hidden_mse"], "layer_map": [0, 2], "alpha": 0.4},
    "attention_gpt2": {"task": "gpt2_causal_lm", "losses": ["attention_mse"], "layer_map": [1, 1], "alpha": 0.5},
    "states_gpt2": {"task": "gpt2_causal_lm", "losses": ["hidden_mse", "hidden_cosine"], "alpha": 0.5},
}


def task_of(name):
    """Task of a golden case."""
    if name.startswith("lora_"):
        return adapted_task(name.removeprefix("lora_"))
    name = name.removeprefix("distilled_")
    return DISTILLED.get(name, {}).get("task", name)


def family_of(task):
    return next((family for family in FAMILIES if task.startswith(family + "_")), "bert")


def embeds(task):
    """Whether the model's outputs are embeddings of texts."""
    return CLASSES.get(task) == "Model"


def embedding_settings(task):
    """[task] of a task whose model's outputs are embeddings."""
    return (EMBEDDINGS | CLASS_EMBEDDINGS)[task]


def compared_texts(task, shard):
    """(first, second): texts of pairs, or neighbours, whose similarities are the predictions of an embedding's golden case."""
    first = shard["groups"][:-1] if task in EMBEDDINGS else range(len(shard["ids"]) - 1)
    return [list(first), [row + 1 for row in first]]


def questions(count, seed):
    """SQuAD's JSON: contexts of up to three windows, each fourth question without an answer, several answers, accents, blanks."""
    draw = random.Random(seed)
    paragraphs = []
    for number in range(count):
        words = [draw.choice(WORDS) or "twice" for _ in range(draw.randint(6, 40))]
        answers = []
        for _ in range(0 if number % 4 == 0 else draw.randint(1, 3)):
            first = draw.randrange(len(words))
            last = draw.randint(first, min(len(words) - 1, first + 3))
            answers.append({"text": " ".join(words[first:last + 1]), "answer_start": len(" ".join(words[:first] + [""]))})
        asked = {"id": f"q{seed}-{number}", "question": f"what is number {number} of {draw.randrange(1000)}?", "answers": answers,
                 "is_impossible": not answers}
        paragraphs.append({"context": " ".join(words), "qas": [asked]})
    return {"version": "v2.0", "data": [{"title": "words", "paragraphs": paragraphs}]}


def write_rows(path, count, seed):
    """Texts with a class, a number, two numbers that most rows have, a set of labels, and a tag for each word."""
    draw = random.Random(seed)
    rows = sentences(count, seed)
    write_tsv(path, rows)
    lines = path.read_text().splitlines()
    sets = ["labels"] + [",".join(name for name in ("even", "rare", "long") if draw.random() < 0.4) for _ in rows]
    tags = ["tags"] + [" ".join("BIO"[(len(word) + i) % 3] for i, word in enumerate(text.split())) for text, _, _ in rows]
    sizes = ["size"] + [f"{len(text) / 50:.3f}" if i % 3 else "" for i, (text, _, _) in enumerate(rows)]
    vowels = ["vowels"] + [f"{sum(map(text.count, 'aeiou')) / 10:.3f}" if i % 4 else "" for i, (text, _, _) in enumerate(rows)]
    path.write_text("".join("\t".join(row) + "\n" for row in zip(lines, sets, tags, sizes, vowels, strict=True)))


def write_mpnet_tokenizer(folder, path):
    """The words of a table's texts, but those with a capital, as a vocabulary with MPNet's special tokens; others are unknown."""
    words = sorted({word for line in path.read_text().splitlines()[1:] for word in line.split("\t")[0].split() if word == word.lower()})
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(["<s>", "<pad>", "</s>", "<unk>", "[UNK]", *words, "<mask>"]) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MPNetTokenizer", "do_lower_case": True}))


def write_pairs(path, count, seed):
    """Pairs of texts and their score from 0 to 5, the share of the anchor's words that the other text has; two texts of other
    words, the second of which every third row lacks; and two short texts, which many rows share."""
    draw, others = random.Random(seed), sentences(count, seed + 100)
    lines = ["anchor\tpositive\tscore\tnear\tfar\ttopic\tends"]
    for row, (text, _, _) in enumerate(sentences(count, seed)):
        words = text.split()
        kept = draw.sample(words, draw.randint(1, len(words)))
        other = others[row][0].split()
        lines.append("\t".join([text, " ".join(kept), str(round(5 * len(kept) / len(words), 2)), " ".join(kept[:1] + other),
                                "" if row % 3 == 0 else " ".join(other), words[0], f"{words[0]} {words[-1]}"]))
    path.write_text("\n".join(lines) + "\n")


def read_shard(path):
    """Sequences, labels and what tasks add to them, as lists of a sequence each."""
    with h5py.File(path) as file:
        at = file["offsets"][:]
        cut = lambda name: [file[name][a:b].astype(int).tolist() for a, b in zip(at[:-1], at[1:])]  # noqa: E731
        more = {}
        if "word_offsets" in file:
            of = file["word_offsets"][:]
            more = {name: [file[dataset][a:b] for a, b in zip(of[:-1], of[1:])]
                    for name, dataset in (("words_of", "word_tokens"), ("classes_of", "labels"))}
        if "groups" in file:
            more["groups"] = file["groups"][:].tolist()
        return more | {"ids": cut("input_ids"), "types": cut("token_type_ids") if "token_type_ids" in file else None,
                       "labels": file["labels"][:] if "labels" in file else [], "rows": file["source_index"][:],
                       "names": json.loads(file.attrs["label_names"]), "words": int(file.attrs["vocabulary_size"]),
                       "tokenizer": json.loads(file.attrs["tokenizer"]), "padding": max(0, json.loads(file.attrs["tokenizer"])["pad_id"])}


def hash_of(shard):
    """Eight digits that change with any token, type or label."""
    text = json.dumps([shard["ids"], shard["types"], np.asarray(shard["labels"]).astype(float).tolist(), shard["names"]])
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def write_safetensors(path, tensors):
    """The format's own layout: length of the header, header, values."""
    header, at = {}, 0
    for name, value in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [at, at + value.nbytes]}
        at += value.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(value.tobytes() for value in tensors.values()))


def gpt2_config(task, shard):
    return {"architectures": ["GPT2" + CLASSES[task]], "model_type": "gpt2", "vocab_size": shard["words"], "n_embd": HIDDEN, "n_layer": LAYERS,
            "n_head": HEADS, "n_inner": INNER, "n_positions": MAX_TOKENS, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}


def gpt2_shapes(config):
    hidden, inner = config["n_embd"], config["n_inner"]
    shapes = {"transformer.wte.weight": (config["vocab_size"], hidden), "transformer.wpe.weight": (config["n_positions"], hidden)}
    layers = {"ln_1": (hidden,), "attn.c_attn": (hidden, 3 * hidden), "attn.c_proj": (hidden, hidden), "ln_2": (hidden,),
              "mlp.c_fc": (hidden, inner), "mlp.c_proj": (inner, hidden)}
    names = [f"h.{i}.{layer}" for i in range(config["n_layer"]) for layer in layers] + ["ln_f"]
    for name in names:
        shape = layers[name.split(".", 2)[2]] if name != "ln_f" else (hidden,)
        shapes |= {f"transformer.{name}.weight": shape, f"transformer.{name}.bias": shape[-1:]}
    return shapes


def config_of(task, shard):
    """config.json of the first model, without dropout."""
    family = family_of(task)
    if family == "gpt2":
        return gpt2_config(task, shard)
    kind = CLASSES.get(task, "ForSequenceClassification")
    config = {"architectures": [FAMILIES.get(family, "Bert") + kind], "model_type": family, "vocab_size": shard["words"], "hidden_size": HIDDEN,
              "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": INNER, "hidden_act": "gelu",
              "max_position_embeddings": MAX_TOKENS, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0,
              "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "initializer_range": 0.1}
    if family == "electra":
        config["embedding_size"] = 24  # a layer between, as in the small model
    if family == "albert":  # all blocks have the same parameters
        config |= {"embedding_size": 24, "hidden_act": "gelu_new", "classifier_dropout_prob": 0.0, "num_hidden_groups": 1}
    if family == "deberta":  # DeBERTa-v3's: distances beyond 4 share three buckets to a side
        config |= {"model_type": "deberta-v2", "relative_attention": True, "position_buckets": 8, "max_relative_positions": -1, "pos_att_type": "p2c|c2p",
                   "share_att_key": True, "norm_rel_ebd": "layer_norm", "position_biased_input": False, "type_vocab_size": 0, "layer_norm_eps": 1e-7}
    if family == "modernbert":  # the second layer attends to 4 tokens on each side; means of all tokens are classified
        config = {"architectures": ["ModernBert" + kind], "model_type": family, "vocab_size": shard["words"], "hidden_size": HIDDEN,
                  "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": INNER, "max_position_embeddings": MAX_TOKENS,
                  "local_attention": 8, "global_attn_every_n_layers": 2, "classifier_pooling": "mean", "pad_token_id": 0}
        config |= dict.fromkeys(["bos_token_id", "cls_token_id"], 2) | dict.fromkeys(["eos_token_id", "sep_token_id"], 3)
    if family == "bilstm":
        config = {"architectures": ["BiLstm" + kind], "model_type": family, "vocab_size": shard["words"], "embedding_size": HIDDEN // 2,
                  "hidden_size": HIDDEN // 2, "num_hidden_layers": LAYERS, "hidden_dropout_prob": 0.0, "classifier_dropout": 0.0,
                  "pooling": "mean", "pad_token_id": 0}
    if family == "roberta":  # positions begin after the row of padding
        config |= {"type_vocab_size": 1, "max_position_embeddings": MAX_TOKENS + 2, "pad_token_id": 1}
    if family == "mpnet":  # positions begin after the row of padding
        config |= {"max_position_embeddings": MAX_TOKENS + 2, "pad_token_id": 1, "relative_attention_num_buckets": 32}
        del config["type_vocab_size"]
    if kind not in ("ForQuestionAnswering", "ForMaskedLM", "Model"):
        names = shard["names"] or ["LABEL_0"]
        config |= {"id2label": {str(i): name for i, name in enumerate(names)}, "label2id": {name: i for i, name in enumerate(names)}}
    if task in PROBLEMS:
        config["problem_type"] = PROBLEMS[task]
    return config


def shapes_of(task, config):
    """{name: shape} of the parameters of Transformers' class, or PyTorch's of a Bi-LSTM, in any order."""
    if config["model_type"] == "gpt2":
        return gpt2_shapes(config)
    family, hidden, inner = config["model_type"].removesuffix("-v2"), config["hidden_size"], config.get("intermediate_size")
    labels = len(config.get("id2label", "12"))
    if family == "bilstm":
        shapes = {"embedding.weight": (config["vocab_size"], config["embedding_size"]), "classifier.weight": (labels, 2 * hidden),
                  "classifier.bias": (labels,)}
        for i in range(config["num_hidden_layers"]):
            for end in (f"l{i}", f"l{i}_reverse"):
                inputs = 2 * hidden if i > 0 else config["embedding_size"]
                shapes |= {f"lstm.weight_ih_{end}": (4 * hidden, inputs), f"lstm.weight_hh_{end}": (4 * hidden, hidden),
                           f"lstm.bias_ih_{end}": (4 * hidden,), f"lstm.bias_hh_{end}": (4 * hidden,)}
        return shapes
    if family == "modernbert":
        shapes = {"model.embeddings.tok_embeddings.weight": (config["vocab_size"], hidden), "head.dense.weight": (hidden, hidden),
                  "classifier.weight": (labels, hidden), "classifier.bias": (labels,)}
        norms = ["model.embeddings.norm", "model.final_norm", "head.norm"]
        for i in range(config["num_hidden_layers"]):
            layer = f"model.layers.{i}"
            shapes |= {f"{layer}.attn.Wqkv.weight": (3 * hidden, hidden), f"{layer}.attn.Wo.weight": (hidden, hidden),
                       f"{layer}.mlp.Wi.weight": (2 * inner, hidden), f"{layer}.mlp.Wo.weight": (hidden, inner)}
            norms += [f"{layer}.mlp_norm", *([f"{layer}.attn_norm"] if i > 0 else [])]
        return shapes | {f"{norm}.weight": (hidden,) for norm in norms}
    columns = config.get("embedding_size", hidden)
    shapes = {f"{family}.embeddings.word_embeddings.weight": (config["vocab_size"], columns)}
    if family == "deberta":
        shapes[f"{family}.encoder.rel_embeddings.weight"] = (2 * config["position_buckets"], hidden)
    else:
        shapes[f"{family}.embeddings.position_embeddings.weight"] = (config["max_position_embeddings"], columns)
    if family == "mpnet":
        shapes[f"{family}.encoder.relative_attention_bias.weight"] = (config["relative_attention_num_buckets"], config["num_attention_heads"])
    elif family != "deberta":
        shapes[f"{family}.embeddings.token_type_embeddings.weight"] = (config["type_vocab_size"], columns)
    attention = ("attn.q", "attn.k", "attn.v", "attn.o", "LayerNorm") if family == "mpnet" else ("self.query", "self.key", "self.value", "output.dense", "output.LayerNorm")
    if family == "deberta":
        attention = (*(f"{name}_proj" for name in attention[:3]), *attention[3:])

    def add(name, *shape):
        shapes[f"{name}.weight"] = shape
        shapes[f"{name}.bias"] = shape[:1]

    add(f"{family}.embeddings.LayerNorm", columns)
    if family == "deberta":  # of the embeddings of distances
        add(f"{family}.encoder.LayerNorm", hidden)
    if family == "albert":
        layer = "albert.encoder.albert_layer_groups.0.albert_layers.0"
        for name in ("query", "key", "value", "dense"):
            add(f"{layer}.attention.{name}", hidden, hidden)
        for name in ("attention.LayerNorm", "full_layer_layer_norm"):
            add(f"{layer}.{name}", hidden)
        for name, rows, inputs in ((f"{layer}.ffn", inner, hidden), (f"{layer}.ffn_output", hidden, inner), ("albert.pooler", hidden, hidden),
                                   ("albert.encoder.embedding_hidden_mapping_in", hidden, columns), ("classifier", labels, hidden)):
            add(name, rows, inputs)
        return shapes
    if columns != hidden:
        add(f"{family}.embeddings_project", hidden, columns)
    for i in range(config["num_hidden_layers"]):
        layer = f"{family}.encoder.layer.{i}"
        for name in attention[:4]:
            add(f"{layer}.attention.{name}", hidden, hidden)
        add(f"{layer}.attention.{attention[4]}", hidden)
        add(f"{layer}.intermediate.dense", inner, hidden)
        add(f"{layer}.output.dense", hidden, inner)
        add(f"{layer}.output.LayerNorm", hidden)
    if embeds(task):
        return shapes
    if task == "masked_lm":
        add("cls.predictions.transform.dense", hidden, hidden)
        add("cls.predictions.transform.LayerNorm", hidden)
        shapes["cls.predictions.bias"] = (config["vocab_size"],)
    elif task == "question_answering":
        add("qa_outputs", 2, hidden)
    elif family == "deberta":
        add("pooler.dense", hidden, hidden)
        add("classifier", labels, hidden)
    elif family == "bert" or task == "token_classification":
        if task != "token_classification":
            add("bert.pooler.dense", hidden, hidden)
        add("classifier", labels, hidden)
    else:
        add("classifier.dense", hidden, hidden)
        add("classifier.out_proj", labels, hidden)
    return shapes


def is_norm(name):
    return "LayerNorm" in name or ".ln_" in name or "norm." in name


def first_values(shapes, seed):
    """{name: values} of a first model: larger than BERT's, so that every gradient counts. numpy has frozen this generator."""
    draw = np.random.RandomState(seed)
    values = {}
    for name, shape in shapes.items():
        drawn = 0.1 * draw.standard_normal(shape)
        if is_norm(name) and name.endswith("weight"):
            drawn += 1
        # Of a Bi-LSTM, which has no norm, as PyTorch's own; the position bias beside scores of about 1.
        if name == "embedding.weight" or "relative_attention_bias" in name:
            drawn *= 10
        values[name] = drawn.astype(np.float32)
    return values


def write_start(folder, task, shard, layers=LAYERS, seed=3, reverse=False, hidden=HIDDEN):
    """The folder of the first model of a task; `reverse`: with the labels in the opposite order."""
    folder.mkdir()
    config = config_of(task, shard)
    if hidden != HIDDEN:
        config["hidden_size"] = hidden
    if layers != LAYERS:
        config["n_layer" if "n_layer" in config else "num_hidden_layers"] = layers
    if reverse:
        names = list(config["label2id"])[::-1]
        config |= {"id2label": {str(i): name for i, name in enumerate(names)}, "label2id": {name: i for i, name in enumerate(names)}}
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    write_safetensors(folder / "model.safetensors", first_values(shapes_of(task, config), seed))


def write_teacher(folder, task, shard):
    """The folder of a teacher, whose classes have another order than the student's."""
    write_start(folder, task, shard, TEACHER_LAYERS, 5, reverse=task == "classification")


def adapted_task(name):
    return ADAPTERS[name].get("task", "classification")


def write_adapter(folder, name, start, shard):
    """A folder of adapters as PEFT writes them, for the first model of the adapter's task; b is not zero and magnitudes are no norms,
    so that every gradient counts from the first step on."""
    folder.mkdir()
    task = adapted_task(name)
    lora, config = ADAPTERS[name], config_of(task, shard)
    shapes = shapes_of(task, config)
    transposed = config["model_type"] == "gpt2"  # weights are (in, out)
    weights = first_values(shapes, 3)
    values, draw = {}, np.random.RandomState(4)
    for key, shape in shapes.items():
        module = key.removesuffix(".weight")
        if module == key:
            continue
        matched = [target for target in TARGETS[name] if module.endswith("." + target)]
        if not any(part in key for part in (".encoder.", ".h.", ".layers.")) or not matched or len(shape) != 2:
            continue
        shape = shape[::-1] if transposed else shape
        prefix = f"base_model.model.{module}"
        values[f"{prefix}.lora_A.weight"] = draw.uniform(-0.1, 0.1, (lora["rank"], shape[1]))
        values[f"{prefix}.lora_B.weight"] = draw.normal(0, 0.05, (shape[0], lora["rank"]))
        if lora.get("dora"):
            values[f"{prefix}.lora_magnitude_vector"] = np.linalg.norm(weights[key], axis=0 if transposed else 1) * draw.uniform(0.8, 1.2, shape[0])
    modules = [] if transposed else ["head.dense", "head.norm", "classifier"] if "head.norm.weight" in weights else [name for name in ("bert.pooler.dense", "albert.pooler", "pooler.dense", "classifier") if f"{name}.weight" in weights]
    for module in modules:
        for part in ("weight", "bias"):
            if f"{module}.{part}" not in weights:
                continue
            values[f"base_model.model.{module}.{part}"] = weights[f"{module}.{part}"]
    write_safetensors(folder / "adapter_model.safetensors", {key: value.astype(np.float32) for key, value in values.items()})
    (folder / "adapter_config.json").write_text(json.dumps({
        "peft_type": "LORA", "task_type": None, "base_model_name_or_path": start, "r": lora["rank"], "lora_alpha": lora["alpha"],
        "lora_dropout": 0.0, "bias": "none", "fan_in_fan_out": transposed, "use_rslora": lora.get("rslora", False),
        "use_dora": lora.get("dora", False), "target_modules": TARGETS[name], "modules_to_save": modules or None,
        "inference_mode": False, "init_lora_weights": True}, indent=1))


class Trainings(unittest.TestCase):
    """Prepares and trains the cases in a folder of its own, in which all paths are relative."""

    @classmethod
    def setUpClass(cls):
        if MPIRUN is None:
            raise unittest.SkipTest("mpirun is not at hand")
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="bert_hpc_training_"))
        cls.prepared = {}
        for split, count, seed in (("train", 150, 1), ("test", 60, 2)):
            (cls.folder / f"{split}.json").write_text(json.dumps(questions(count, seed)), encoding="utf-8")
            write_rows(cls.folder / f"{split}.tsv", count, seed)
            write_pairs(cls.folder / f"pairs_{split}.tsv", count, seed)
            write_tsv(cls.folder / f"masked_{split}.tsv", sentences(count + 10, seed))  # whole batches
            (cls.folder / f"ranked_{split}.tsv").write_text(ranking.wikiqa(ranking.questions(seed)))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def start(self, program, name, tables, ranks=1):
        (self.folder / name).write_text("".join(f"[{table}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in keys.items())
                                                for table, keys in tables.items() if keys))
        return run(program, name, ranks=ranks, threads=1, check=0, cwd=self.folder)

    def prepare(self, task):
        """Makes the shards in TASK and the first model in TASK_start, once; returns the shards."""
        if task in self.prepared:
            return self.prepared[task]
        answers, ranks = task == "question_answering", task.startswith("answer_ranking")
        labels = {"label": LABELS[task]} if task in LABELS else {}
        pairs = {"format": "tsv"} | EMBEDDING_SOURCES.get(task, {})
        source = {"format": "squad"} if answers else {"format": "wikiqa"} if ranks else pairs if task in EMBEDDINGS else {"format": "tsv", "text": "text"} | labels
        tokenizer = {"type": "byte_bpe", "train_size": 400} if family_of(task) in ("gpt2", "roberta") else {"train_size": 250}
        if family_of(task) == "mpnet":
            write_mpnet_tokenizer(self.folder / f"{task}_tokenizer", self.folder / "train.tsv")
            tokenizer = {"vocabulary": f"{task}_tokenizer"}
        tokenizer |= {"max_tokens": 16 if task == "token_classification" else MAX_TOKENS}
        if answers:
            tokenizer["doc_stride"] = OVERLAP
        masks = task == "masked_lm"
        files = [f"{'ranked_' if ranks else 'pairs_' if task in EMBEDDINGS else 'masked_' if masks else ''}{split}.{'json' if answers else 'tsv'}" for split in ("train", "test")]
        self.start("bert_hpc_prep", f"{task}_prep.toml", {
            "source": source | {"files": files[:1], "test_files": files[1:]}, "split": {"train": 1}, "tokenizer": tokenizer,
            "task": {"name": TASKS.get(task, task)} | ({"pack": False} if masks else {}), "output": {"directory": task}})
        shards = [read_shard(self.folder / task / f"{split}-00000.h5") for split in ("train", "test")]
        write_start(self.folder / f"{task}_start", task, shards[0])
        self.prepared[task] = shards
        return shards

    def losses(self, output):
        with h5py.File(self.folder / output / "metrics.h5") as file:
            return file["steps/loss"][:]

    def train(self, task, output, parallel={}, steps=STEPS, /, **more):
        """The losses of a training of `task` with this [parallel] and `more` tables, in the folder `output`."""
        settings = {"name": TASKS.get(task, task)} | ({"standardize": False} if task.endswith("regression") else {})
        settings |= {"loss": "listwise"} if task == LISTWISE else {"range": "labels"} if task == BOUNDED else embedding_settings(task) if embeds(task) else {}
        self.start("bert_hpc", f"{output}.toml", {
            "run": {"mode": "train", "directory": output}, "model": {"pretrained": f"{task}_start"}, "task": settings,
            "data": {"train": [f"{task}/train-*.h5"], "test": [f"{task}/test-*.h5"], "order": "file"}, "batch": {"global": BATCH},
            "optimizer": {"learning_rate": RATE}, "schedule": {"steps": steps}, "parallel": parallel,
            "log": {"every_steps": 1, "progress": "none"}} | more, ranks=rank_count(parallel))
        return self.losses(output)

    def teacher_of(self, task):
        """The shards; makes TASK_teacher once."""
        shards = self.prepare(task)
        if not (self.folder / f"{task}_teacher").exists():
            write_teacher(self.folder / f"{task}_teacher", task, shards[0])
        return shards

    def student_of(self, name):
        """Folder of the first model of a case of DISTILLED, which is made once."""
        task = task_of(f"distilled_{name}")
        if not DISTILLED[name].get("narrow"):
            return f"{task}_start"
        if not (self.folder / f"{task}_narrow").exists():
            write_start(self.folder / f"{task}_narrow", task, self.prepare(task)[0], hidden=HIDDEN // 2)
        return f"{task}_narrow"

    def distil(self, name, output, parallel={}, /, **more):
        """The losses of a training of a case of DISTILLED beside TASK_teacher."""
        task = task_of(f"distilled_{name}")
        distill = {key: value for key, value in DISTILLED[name].items() if key not in ("task", "narrow")}
        return self.train(task, output, parallel, DISTILLED_STEPS, model={"pretrained": self.student_of(name)},
                          distill={"teacher": f"{task}_teacher"} | distill, **more)

    def train_adapter(self, adapter, output, parallel={}, task="classification"):
        """The losses of a training of `task` with the adapter of this folder, and all that it names."""
        self.start("bert_hpc", f"{output}.toml", {
            "run": {"mode": "train", "directory": output}, "model": {"pretrained": f"{task}_start", "trainable": "lora"},
            "model.lora": {"adapter": adapter}, "task": {"name": TASKS.get(task, task)},
            "data": {"train": [f"{task}/train-*.h5"], "test": [f"{task}/test-*.h5"], "order": "file"},
            "batch": {"global": BATCH}, "optimizer": {"learning_rate": LORA_RATE}, "schedule": {"steps": LORA_STEPS},
            "parallel": parallel, "log": {"every_steps": 1, "progress": "none"}}, ranks=rank_count(parallel))
        return self.losses(output)

    def predictions(self, task, output):
        """What predictions.h5 says of the test rows; question answering: the text and the null odds of each question; masked
        language modelling: loss and accuracy of the evaluation."""
        folder = self.folder / output
        if embeds(task):
            # A loss of distances leaves the last bias free, and cosines with it.
            settings = embedding_settings(task)
            euclidean = settings.get("similarity") == "euclidean"
            self.start("bert_hpc", f"{output}_embed.toml", {
                "run": {"mode": "embed", "directory": f"{output}_embed"}, "model": {"pretrained": f"{output}/model"},
                "embed": {"pooling": settings.get("pooling", "mean"), "normalize": not euclidean}, "data": {"test": [f"{task}/test-*.h5"]}})
            with h5py.File(self.folder / f"{output}_embed/embeddings/test-00000.h5") as file:
                vectors = file["embeddings"][:].astype(float)
            one, other = (vectors[rows] for rows in compared_texts(task, read_shard(self.folder / f"{task}/test-00000.h5")))
            return np.linalg.norm(one - other, axis=1) if euclidean else (one * other).sum(axis=1)
        if task == "question_answering":
            texts, odds = (json.loads((folder / name).read_text()) for name in ("predictions.json", "null_odds.json"))
            return {name: (texts[name], odds[name]) for name in texts}
        if task == "token_classification":
            return [line.split(" ")[2] for line in (folder / "predictions.conll").read_text().splitlines() if line]
        if task == "masked_lm":
            with h5py.File(folder / "metrics.h5") as file:
                found = values_of(file["evaluations/test"])
            return np.array([found["loss"], found["accuracy"]])
        with h5py.File(folder / "predictions.h5") as file:
            return file[next(name for name in ("probabilities", "prediction", "loss") if name in file)][:]


def rank_count(parallel):
    """Ranks of a [parallel] table."""
    return int(np.prod([parallel.get(axis, 1) for axis in ("data", "pipeline", "tensor")], dtype=int))

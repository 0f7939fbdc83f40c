"""The trainings of training_cases.py by Transformers and PEFT, in double precision on one processor. Needs torch, transformers and
for adapters peft."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import sys
from pathlib import Path

import torch
import transformers

import training_cases as cases
from masks import masked

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "golden"))
import bilstm_reference  # noqa: E402

torch.set_num_threads(1)
MAXIMA_APART = 3e-6  # single precision's error of a hidden state is below 1e-6


def first_model(task, folder):
    if cases.family_of(task) == "bilstm":
        return bilstm_reference.BiLstm.from_pretrained(folder, "sequence")
    without = {"add_pooling_layer": False} if cases.embeds(task) else {}
    model, info = class_of(task).from_pretrained(folder, output_loading_info=True, **without)
    unread = {key: value for key, value in info.items() if value}
    assert not unread, unread
    return model


def class_of(task):
    family = cases.FAMILIES.get(cases.family_of(task), "Bert")
    return getattr(transformers, family + cases.CLASSES.get(task, "ForSequenceClassification"))


def batch_of(shard, chosen, *names):
    """A padded batch of token ids and attention mask, with token types if `names` has them."""
    width = max(len(shard["ids"][i]) for i in chosen)
    batch = {name: torch.zeros(len(chosen), width, dtype=torch.long) for name in ("input_ids", "attention_mask", *names)}
    batch["input_ids"] += shard["padding"]
    for row, i in enumerate(chosen):
        size = len(shard["ids"][i])
        batch["input_ids"][row, :size] = torch.tensor(shard["ids"][i])
        batch["attention_mask"][row, :size] = 1
        if names:
            batch["token_type_ids"][row, :size] = torch.tensor(shard["types"][i])
    return batch


def padded_loss(model, shard, chosen):
    """Transformers' loss of a padded batch."""
    labels = torch.tensor(shard["labels"][chosen])
    labels = labels.long() if labels.dtype == torch.int32 and labels.ndim == 1 else labels.double()
    return model(**batch_of(shard, chosen), labels=labels).loss


def alone_loss(model, shard, chosen):
    """Cross entropy of each sequence alone: in padded batches Transformers' attention in a window makes NaN of padding."""
    logits = torch.cat([model(input_ids=torch.tensor([shard["ids"][i]])).logits for i in chosen])
    return torch.nn.functional.cross_entropy(logits, torch.tensor(shard["labels"][chosen]).long())


def class_loss(model, shard, chosen):
    """Cross entropy of a padded batch: Transformers computes DeBERTa's in single precision."""
    return torch.nn.functional.cross_entropy(model(**batch_of(shard, chosen)).logits, torch.tensor(shard["labels"][chosen]).long())


def span_loss(model, shard, chosen):
    """Transformers' loss of each sequence alone: in a padded batch its softmax would have terms of the padding."""
    losses = []
    for i in chosen:
        first, last = torch.tensor(shard["labels"][i]).long()
        losses.append(model(input_ids=torch.tensor([shard["ids"][i]]), token_type_ids=torch.tensor([shard["types"][i]]),
                            start_positions=first.reshape(1), end_positions=last.reshape(1)).loss)
    return torch.stack(losses).mean()


def word_loss(model, shard, chosen):
    """Transformers' loss of a padded batch, whose labels are those of words' first tokens, else -100."""
    batch = batch_of(shard, chosen)
    labels = torch.full_like(batch["input_ids"], -100)
    for row, i in enumerate(chosen):
        for (first, _), label in zip(shard["words_of"][i], shard["classes_of"][i], strict=True):
            labels[row, first] = int(label)
    return model(**batch, labels=labels).loss


def scores_of(model, shard, chosen):
    """Scores of a padded batch of pairs."""
    return model(**batch_of(shard, chosen, "token_type_ids")).logits[:, 0]


def pair_loss(model, shard, chosen):
    """sentence-transformers' BinaryCrossEntropyLoss."""
    labels = torch.tensor(shard["labels"][chosen]).double()
    return torch.nn.functional.binary_cross_entropy_with_logits(scores_of(model, shard, chosen), labels)


def list_loss(model, shard, chosen):
    """Cross entropy over all candidates of each query in `chosen`, with one share for each that is relevant."""
    losses = []
    for query in chosen:
        rows = list(range(*query))
        relevant = torch.tensor(shard["labels"][rows]).double()
        losses.append(torch.nn.functional.cross_entropy(scores_of(model, shard, rows), relevant / relevant.sum()))
    return torch.stack(losses).mean()


def bounded_loss(model, shard, chosen):
    """Squared error of the logits' sigmoids against labels from 0 (the least) to 1 (the largest)."""
    labels = torch.tensor(shard["labels"]).double()
    shares = (labels - labels.min()) / (labels.max() - labels.min())
    return torch.nn.functional.mse_loss(torch.sigmoid(model(**batch_of(shard, chosen)).logits[:, 0]), shares[chosen])


def next_tokens(model, shard, chosen):
    """(logits, token) of each token after the first of its sequence."""
    batch = batch_of(shard, chosen)
    real = batch["attention_mask"][:, 1:] == 1
    return model(**batch).logits[:, :-1][real], batch["input_ids"][:, 1:][real]


def hidden_epochs(shard, seed, epochs):
    """The sequences of so many epochs one after the other, with what is hidden in each: positions and tokens."""
    drawn = [(ids, *masked(ids, sample, epoch, seed, shard["tokenizer"], shard["words"])) for epoch in range(epochs) for sample, ids in enumerate(shard["ids"])]
    ids = [replaced for _, replaced, _ in drawn]
    # PyTorch's embeddings leave padding without a gradient; the program trains what it draws.
    assert not any(shard["tokenizer"]["pad_id"] in replaced for replaced in ids), "choose data without it"
    return shard | {"ids": ids, "types": shard["types"] and shard["types"] * epochs, "hidden": [hidden for _, _, hidden in drawn],
                    "originals": [[whole[position] for position in hidden] for whole, _, hidden in drawn]}


def hidden_tokens(model, shard, chosen):
    """(logits, token) of each hidden token of a padded batch."""
    logits = model(**batch_of(shard, chosen)).logits
    return torch.cat([logits[row, shard["hidden"][i]] for row, i in enumerate(chosen)]), torch.tensor([token for i in chosen for token in shard["originals"][i]])


def mask_loss(model, shard, chosen):
    """Cross entropy of each hidden token, in double precision unlike Transformers' own."""
    return torch.nn.functional.cross_entropy(*hidden_tokens(model, shard, chosen))


def columns_loss(model, shard, chosen):
    """Mean squared error over the known labels of a padded batch; without missing ones that of Transformers."""
    labels = torch.tensor(shard["labels"][chosen]).double()
    known = ~labels.isnan()
    return torch.nn.functional.mse_loss(model(**batch_of(shard, chosen)).logits[known], labels[known])


def token_losses(model, shard, chosen):
    """Cross entropy of each token after the first of its sequence, in double precision unlike Transformers' own."""
    return torch.nn.functional.cross_entropy(*next_tokens(model, shard, chosen), reduction="none")


def token_loss(model, shard, chosen):
    return token_losses(model, shard, chosen).mean()


def embeddings_of(task, model, shard, rows):
    """Pooled token embeddings of a padded batch."""
    batch = batch_of(shard, rows)
    states, real = model(**batch).last_hidden_state, batch["attention_mask"][:, :, None]
    pooling = cases.embedding_settings(task).get("pooling", "mean")
    if pooling == "cls":
        return states[:, 0]
    if pooling == "mean":
        return (states * real).sum(1) / real.sum(1)
    largest = states.masked_fill(real == 0, -torch.inf).topk(2, dim=1).values
    # If two maxima are nearly equal, single precision on another processor may select the other token, which changes the gradient.
    assert (largest[:, 0] - largest[:, 1]).min() > MAXIMA_APART, "choose data without such a pair"
    return largest[:, 0]


def row_embeddings(task, model, shard, chosen, columns=None):
    """(anchors, positives, negatives) of the rows [begin, end): the first columns of their embeddings, normalized."""
    rows = [row for texts in chosen for row in range(*texts)]
    indices = torch.tensor([row - texts[0] for texts in chosen for row in range(*texts)])
    found = torch.nn.functional.normalize(embeddings_of(task, model, shard, rows)[:, :columns], dim=-1)
    return found[indices == 0], found[indices == 1], found[indices > 1]


def similarities(name, a, b):
    """sentence-transformers' pairwise similarities."""
    if name == "euclidean":
        return -torch.nn.functional.pairwise_distance(a, b)
    return (a * b).sum(-1) if name == "dot" else torch.nn.functional.cosine_similarity(a, b)


def row_loss(settings, texts, score):
    """TripletLoss or MarginMSELoss of one row: its anchor, its positive and its negatives."""
    anchor, positive, negatives = texts[:1], texts[1:2], texts[2:]
    of_triplets = settings["loss"] == "triplet"
    name = settings.get("similarity", "cosine" if of_triplets else "dot")
    margins = similarities(name, anchor, positive) - similarities(name, anchor, negatives)
    return torch.relu(settings["margin"] - margins).mean() if of_triplets else (margins - score).square().mean()


def duplicates(shard, chosen):
    """(anchors, positives then negatives): texts that are no negatives of an anchor, apart from its own positive."""
    text = lambda row: tuple(shard["ids"][row])  # noqa: E731
    candidates = [first + 1 for first, _ in chosen] + [row for first, end in chosen for row in range(first + 2, end)]
    return torch.tensor([[j != i and (text(row) in (text(first), text(first + 1)) or (j < len(chosen) and text(row - 1) == text(first)))
                          for j, row in enumerate(candidates)] for i, (first, _) in enumerate(chosen)])


def batch_triplet_loss(task):
    """The loss of sentence-transformers' class for [task] loss, on embeddings that are computed here."""
    settings = cases.embedding_settings(task)
    name = settings.get("loss", "batch_hard_triplet")
    kind, method = {"batch_hard_triplet": ("BatchHardTripletLoss", "batch_hard_triplet_loss"),
                    "batch_hard_soft_margin_triplet": ("BatchHardSoftMarginTripletLoss", "batch_hard_triplet_soft_margin_loss"),
                    "batch_semi_hard_triplet": ("BatchSemiHardTripletLoss", "batch_semi_hard_triplet_loss"),
                    "batch_all_triplet": ("BatchAllTripletLoss", "batch_all_triplet_loss")}[name]

    def loss(model, shard, chosen):
        from sentence_transformers import losses

        distances = losses.BatchHardTripletLossDistanceFunction
        more = {"distance_metric": distances.cosine_distance if settings["similarity"] == "cosine" else distances.eucledian_distance}
        if "soft_margin" not in name:
            more["margin"] = settings.get("margin", 5.0)
        compute = getattr(getattr(losses, kind)(None, **more), method)
        return compute(torch.tensor(shard["labels"][chosen]), embeddings_of(task, model, shard, chosen))

    return loss


def embedding_loss(task):
    """sentence-transformers' MultipleNegativesRankingLoss, its symmetric one, CosineSimilarityLoss, TripletLoss, MarginMSELoss, or
    MatryoshkaLoss of one."""
    settings = cases.EMBEDDINGS[task]

    def of_columns(model, shard, chosen, columns):
        if settings.get("loss") in ("triplet", "margin_mse"):
            rows = [row for texts in chosen for row in range(*texts)]
            all_texts = iter(embeddings_of(task, model, shard, rows)[:, :columns].split([end - first for first, end in chosen]))
            scores = [float(shard["labels"][first]) if len(shard["labels"]) else None for first, _ in chosen]
            return torch.stack([row_loss(settings, next(all_texts), score) for score in scores]).mean()
        anchors, positives, negatives = row_embeddings(task, model, shard, chosen, columns)
        if settings.get("loss") == "cosine_similarity":
            scores = torch.tensor(shard["labels"][[first for first, _ in chosen]]).double() / settings["range"][1]
            return torch.nn.functional.mse_loss((anchors * positives).sum(-1), scores)
        logits, own = settings.get("scale", 20.0) * anchors @ torch.cat([positives, negatives]).T, torch.arange(len(chosen))
        if settings.get("skip_duplicates"):
            assert duplicates(shard, chosen).any()
            logits = logits.masked_fill(duplicates(shard, chosen), -torch.inf)
        losses = [torch.nn.functional.cross_entropy(logits, own)]
        if settings.get("symmetric"):
            losses.append(torch.nn.functional.cross_entropy(logits[:, :len(chosen)].T, own))
        return sum(losses) / len(losses)

    return lambda model, shard, chosen: sum(of_columns(model, shard, chosen, columns) for columns in settings.get("dimensions", [None]))


LOSSES = {"question_answering": span_loss, "token_classification": word_loss, "answer_ranking": pair_loss, cases.LISTWISE: list_loss,
          cases.BOUNDED: bounded_loss, cases.COLUMNS: columns_loss, "gpt2_causal_lm": token_loss, "masked_lm": mask_loss, "modernbert_classification": alone_loss, "deberta_classification": class_loss} | {task: embedding_loss(task) for task in cases.EMBEDDINGS} \
    | {task: batch_triplet_loss(task) for task in cases.CLASS_EMBEDDINGS}


def train(model, loss_of, items, steps, rate):
    """The loss of each step of AdamW with a learning rate that falls to 0, on batches of the items in order."""
    parameters = [(name, value) for name, value in model.named_parameters() if value.requires_grad]
    plain = lambda name: name.split(".")[-1].startswith("bias") or "relative_attention_bias" in name or cases.is_norm(name)  # noqa: E731
    optimizer = torch.optim.AdamW([{"params": [p for n, p in parameters if plain(n) == without], "weight_decay": decay}
                                   for without, decay in ((False, 0.01), (True, 0.0))], lr=rate)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, 0, steps)
    batches = [items[begin:begin + cases.BATCH] for begin in range(0, len(items), cases.BATCH)]
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, batches[step % len(batches)])
        loss.backward()
        torch.nn.utils.clip_grad_norm_([value for _, value in parameters], 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


def trained(task, folder, shard):
    """(losses, model) of a training from the first model in `folder`."""
    model = first_model(task, folder)
    model = model.double().train()
    loss_of = LOSSES.get(task, padded_loss)
    return train(model, lambda m, chosen: loss_of(m, shard, chosen), items_of(task, shard), cases.STEPS, cases.RATE), model.eval()


def distributions(student, teacher, terms, margins=None):
    """The soft loss of outputs (rows, classes), as Hinton et al. and Hofstätter et al. have it; margins: the relevant rows."""
    cold, losses = terms.get("temperature", 2.0), []
    if "kl" in terms["losses"]:
        entries = torch.nn.functional.kl_div((student / cold).log_softmax(-1), (teacher / cold).softmax(-1), reduction="none")
        losses.append(cold ** 2 * entries.sum(-1).mean())
    if "mse_logits" in terms["losses"]:
        losses.append(torch.nn.functional.mse_loss(student, teacher))
    if "margin_mse" in terms["losses"]:
        margins_of = [(scores[0, margins][:, None] - scores[0, ~margins][None]) for scores in (student, teacher)]
        losses.append(torch.nn.functional.mse_loss(*margins_of) if margins_of[0].numel() else torch.zeros(()).double())
    return sum(losses)


def sigmoids(student, teacher, terms):
    """The soft loss of outputs that are the logits of a probability each."""
    cold, losses = terms["temperature"], []
    if "kl" in terms["losses"]:
        pair = [torch.stack([logits / cold, torch.zeros_like(logits)], -1) for logits in (student, teacher)]
        entries = torch.nn.functional.kl_div(pair[0].log_softmax(-1), pair[1].softmax(-1), reduction="none")
        losses.append(cold ** 2 * entries.sum(-1).mean())
    if "mse_logits" in terms["losses"]:
        losses.append(torch.nn.functional.mse_loss(student, teacher))
    return sum(losses)


def whole_batch(task, shard, chosen):
    """A padded batch of all sequences in `chosen`, with token types if there are any."""
    rows = [row for query in chosen for row in range(*query)] if task == cases.LISTWISE else chosen
    return batch_of(shard, rows, *(["token_type_ids"] if shard["types"] else []))


def states_loss(task, terms, models, shard, chosen):
    """The losses between hidden states of (student, teacher) at the real tokens of a padded batch."""
    if not set(terms["losses"]) & STATE_LOSSES:
        return 0
    batch = whole_batch(task, shard, chosen)
    real = batch["attention_mask"] == 1
    student, teacher = ([states[real] for states in model(**batch, output_hidden_states=True).hidden_states] for model in models)
    here, there = len(student) - 1, len(teacher) - 1
    loss, projections = 0, getattr(models[0], "projections", [lambda state: state] * len(student))
    if "hidden_mse" in terms["losses"]:
        pairs = [(i + 1, block + 1) for i, block in enumerate(layer_map_of(terms, here, there))] + ([(0, 0)] if terms.get("match_embeddings", True) else [])
        loss += sum(torch.nn.functional.mse_loss(projections[i](student[i]), teacher[j]) for i, j in pairs)
    if "hidden_cosine" in terms["losses"]:
        loss += torch.nn.functional.cosine_embedding_loss(student[-1], teacher[-1], torch.ones(len(student[-1])).double())
    return loss


def layer_map_of(terms, here, there):
    return terms.get("layer_map", [-(-(i + 1) * there // here) - 1 for i in range(here)])  # TinyBERT's, rounded up


def scores_of_heads(model, batch):
    """Attention scores before the softmax of each block: (batch, heads, queries, keys)."""
    causal = hasattr(model, "transformer")
    layers = model.transformer.h if causal else model.bert.encoder.layer
    found = []

    def keep(_, __, output):
        found.append(output)

    hooks = []
    for layer in layers:
        parts = [layer.attn.c_attn] if causal else [layer.attention.self.query, layer.attention.self.key]
        hooks += [part.register_forward_hook(keep) for part in parts]
    model(**batch)
    for hook in hooks:
        hook.remove()
    heads, hidden = model.config.num_attention_heads, model.config.hidden_size
    pairs = [(both[..., :hidden], both[..., hidden:2 * hidden]) for both in found] if causal else list(zip(found[::2], found[1::2], strict=True))
    split = [[value.unflatten(-1, (heads, -1)).transpose(1, 2) for value in pair] for pair in pairs]
    return [q @ k.transpose(2, 3) / (hidden // heads) ** 0.5 for q, k in split]


def attention_loss(task, terms, models, shard, chosen):
    """TinyBERT's loss between attention scores (equation 7): for each real token the mean over the heads and the keys that it attends to;
    the mean of these over the real tokens of a batch."""
    if "attention_mse" not in terms["losses"]:
        return 0
    batch = whole_batch(task, shard, chosen)
    student, teacher = (scores_of_heads(model, batch) for model in models)
    real = batch["attention_mask"].double()
    visible = real[:, None, :] * real[:, :, None]
    if task == "gpt2_causal_lm":
        visible = visible.tril()
    loss = 0
    for i, block in enumerate(layer_map_of(terms, len(student), len(teacher))):
        squares = (student[i] - teacher[block]).square().mean(1) * visible
        of_rows = squares.sum(-1) / visible.sum(-1).clamp(min=1)
        loss += of_rows.sum() / real.sum()
    return loss


STATE_LOSSES = {"hidden_mse", "hidden_cosine"}


def soft_loss(task, terms, models, shard, chosen):
    """The loss between the outputs of (student, teacher)."""
    if not set(terms["losses"]) - STATE_LOSSES - {"attention_mse"}:
        return 0
    if task == "gpt2_causal_lm":
        return distributions(*(next_tokens(model, shard, chosen)[0] for model in models), terms)
    if task == "masked_lm":
        return distributions(*(hidden_tokens(model, shard, chosen)[0] for model in models), terms)
    if task == "question_answering":
        losses = []
        for i in chosen:
            outputs = [model(input_ids=torch.tensor([shard["ids"][i]]), token_type_ids=torch.tensor([shard["types"][i]])) for model in models]
            losses.append(distributions(*(torch.cat([o.start_logits, o.end_logits]) for o in outputs), terms))
        return torch.stack(losses).mean()
    if task == cases.LISTWISE:
        losses = []
        for query in chosen:
            rows = list(range(*query))
            relevant = torch.tensor(shard["labels"][rows]) > 0.5
            losses.append(distributions(*(scores_of(model, shard, rows)[None] for model in models), terms, relevant))
        return torch.stack(losses).mean()
    more = ["token_type_ids"] if task == "answer_ranking" else []
    logits = [model(**batch_of(shard, chosen, *more)).logits for model in models]
    if task == "token_classification":
        return distributions(*(torch.cat([o[row, shard["words_of"][i][:, 0].tolist()] for row, i in enumerate(chosen)]) for o in logits), terms)
    if task == "classification":
        logits[1] = logits[1].flip(-1)  # its labels have the opposite order
    return (sigmoids if task in ("multi_label", "answer_ranking") else distributions)(*logits, terms)


def items_of(task, shard):
    """What a step draws: sequences, or the ends of queries or pairs."""
    if task in cases.EMBEDDINGS:
        return list(zip(shard["groups"], shard["groups"][1:]))
    if task != cases.LISTWISE:
        return list(range(len(shard["ids"])))
    return [ends for ends in zip(shard["groups"], shard["groups"][1:]) if shard["labels"][ends[0]:ends[1]].any()]


def distilled(name, folder, teacher_folder, shard, projections):
    """(losses, model) of a training, a case of DISTILLED, from the first model in `folder` beside a teacher; projections: the first
    weights of those of the embeddings and of each block, or none."""
    task, terms = cases.task_of(f"distilled_{name}"), cases.DISTILLED[name]
    models = [class_of(task).from_pretrained(path).double().eval() for path in (folder, teacher_folder)]
    models[1].requires_grad_(False)
    if projections:
        layers = [torch.nn.Linear(*weight.shape[::-1]).double() for weight in projections]
        for layer, weight in zip(layers, projections, strict=True):
            layer.weight.data = torch.from_numpy(weight).double()
            layer.bias.data.zero_()
        models[0].projections = torch.nn.ModuleList(layers)
    models[0].train()
    if task == "masked_lm":
        shard = hidden_epochs(shard, cases.SEED, cases.DISTILLED_STEPS * cases.BATCH // len(shard["ids"]))
    alpha, task_loss = terms["alpha"], LOSSES.get(task, padded_loss)

    def loss_of(model, chosen):
        between = sum(loss(task, terms, (model, models[1]), shard, chosen) for loss in (soft_loss, states_loss, attention_loss))
        return (1 - alpha) * task_loss(model, shard, chosen) + alpha * between

    return train(models[0], loss_of, items_of(task, shard), cases.DISTILLED_STEPS, cases.RATE), models[0].eval()


def adapted(folder, adapter, task="classification"):
    """PEFT's model of the first model in `folder` with the adapter of a folder."""
    import peft

    base = class_of(task).from_pretrained(folder)
    return peft.PeftModel.from_pretrained(base, adapter, is_trainable=True)


def trained_adapter(folder, adapter, shard, task="classification"):
    """(losses, model) of a training of an adapter."""
    model = adapted(folder, adapter, task).double().train()
    items = list(range(len(shard["ids"])))
    loss_of = LOSSES.get(task, padded_loss)
    return train(model, lambda m, chosen: loss_of(m, shard, chosen), items, cases.LORA_STEPS, cases.LORA_RATE), model.eval()


def outputs(model, shard):
    """The model's output for each sequence alone."""
    with torch.no_grad():
        for i, ids in enumerate(shard["ids"]):
            types = {"token_type_ids": torch.tensor([shard["types"][i]])} if shard["types"] else {}
            yield model(input_ids=torch.tensor([ids]), **types)


def prediction(task, shard, logits):
    """What predictions.h5 has for a sequence with these logits; shard: the training's, whose labels give a range."""
    if task == "multi_label":
        return torch.sigmoid(logits)
    if task.endswith("classification"):
        return logits.softmax(-1)
    if task == cases.BOUNDED:
        low, high = float(shard["labels"].min()), float(shard["labels"].max())
        return low + (high - low) * torch.sigmoid(logits)
    return logits

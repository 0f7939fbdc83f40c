"""Study 4: which person or language model wrote a text, by embeddings and a Bi-LSTM, in several layouts."""

from dataclasses import dataclass

import source_pictures
import source_tables
from command_line import SCRATCH, StudyError, config_of, model_of, sizes_of
from study_plan import Measure, Plan, Variant, shards_of
from measures import epoch_seconds, metric, most_of_ranks, of_samples, rate
from source_columns import table_of

ABOUT = """Sources of texts: two encoders, BERT and GPT-2, turn texts into embeddings, and a Bi-LSTM of two layers
with one linear layer says from these who wrote a text; the same Bi-LSTM is trained without parallelism, data parallel
with and without accumulation, with ZeRO 2 and offload, with its layers on two devices, and as a GPipe pipeline of
three balances by three numbers of micro-batches. Fine-tuning both encoders is the baseline. Adam, learning rate 1e-3,
batches of 64.

--data is a CSV file with the columns text and source, or a folder with one (the corpus "human vs. LLM text", or any
other). Texts of more than 2000 characters and sources with fewer than 1000 texts are left out; 64% are for training,
16% for validation, 20% for test, of each source. Human against machine is a second table if a source is named human.

The tables have accuracy, macro precision, recall and F1 of the test split, minutes an epoch, utilisation and memory
of each rank, what the filters removed, the texts of each source and split, and the bytes of the embeddings."""

OWN_MODELS = True
COLUMNS = ("text", "source")
SIZES = {
    "tiny": {
        "max_tokens": 64,
        "epochs": 20,
        "finetuned": 3,
        "rows": 20,
        "sample": 400,
        "words": 1000,
        "classifier": "layers=2,hidden=32",
        "log": 2,
    },
    "small": {
        "max_tokens": 128,
        "epochs": 12,
        "finetuned": 3,
        "rows": 1000,
        "sample": 0,
        "words": 8192,
        "classifier": "layers=2,hidden=128",
        "log": 20,
    },
    "full": {
        "max_tokens": 512,
        "epochs": 10,
        "finetuned": 3,
        "rows": 1000,
        "sample": 0,
        "words": 30522,
        "classifier": "layers=2,hidden=256",
        "log": 50,
    },
}
MOST_CHARACTERS = 2000
TYPES = ("fp16", "fp32", "int8")  # types of embeddings in the files; all layouts read the first
NAMES = {"bert": "BERT", "gpt2": "GPT-2", "roberta": "RoBERTa", "distilbert": "DistilBERT", "electra": "ELECTRA"}
CHUNKS = (8, 16, 32)
PUBLISHED = {"bert": {"accuracy": 0.80}, "gpt2": {"accuracy": 0.77}}


def add_options(parser):
    parser.add_argument(
        "--encoders",
        nargs=2,
        default=["", ""],
        metavar=("A", "B"),
        help="folders of the two encoders, or sizes: then they are BERT and GPT-2 with random weights (the default of"
        " tiny and small)",
    )
    parser.add_argument(
        "--classifier", default="", metavar="SIZES", help="of the Bi-LSTM (default: layers=2,hidden=256)"
    )
    parser.add_argument(
        "--pooling",
        choices=("mean", "cls", "last", "max", "tokens"),
        default="mean",
        help="a text's embedding; tokens: one of each token, which takes a few hundred times the space",
    )


@dataclass
class Encoder:
    key: str  # in the names of runs
    family: str
    label: str  # says if its weights are random
    model: dict
    vocabulary: str
    shards: str = "shards"

    @property
    def random(self):
        return "pretrained" not in self.model


def encoders_of(options, given):
    """Both encoders: folders, or BERT and GPT-2 of such sizes."""
    problems, found = [], []
    models = [model_of(text, SCRATCH.get(options.size, ""), problems, "--encoders") for text in given.encoders]
    if problems:
        raise StudyError("\n".join(dict.fromkeys(problems)))  # both may have the same one
    for (model, vocabulary), family, shards in zip(models, ("bert", "gpt2"), ("shards", "shards-second")):
        if vocabulary:
            family = config_of(vocabulary, "--encoders")["model_type"]
        key = family if family not in [one.key for one in found] else family + "-second"
        label = NAMES.get(family, family) + ("" if key == family else ", second")
        found.append(
            Encoder(key, family, label if vocabulary else f"{label} (random weights)", model, vocabulary, shards)
        )
    return found


def prep_of(encoder, path, size):
    tokenizer = {"max_tokens": size["max_tokens"]}
    if encoder.vocabulary:
        tokenizer["vocabulary"] = encoder.vocabulary
    else:
        tokenizer |= {"type": "byte_bpe" if encoder.family == "gpt2" else "wordpiece", "train_size": size["words"]}
    return {
        "source": {"format": "csv", "files": [str(path)], "text": "text", "label": "source"},
        "filter": {
            "max_characters": MOST_CHARACTERS,
            "min_rows_per_label": size["rows"],
            **({"sample": size["sample"]} if size["sample"] else {}),
        },
        "split": {"train": 0.64, "validation": 0.16, "test": 0.2, "seed": 1, "stratify": True},
        "tokenizer": tokenizer,
        "task": {"name": "classification"},
    }


def inputs_of(encoder, output, size, classifier, pooling):
    """{name: input of bert_hpc}: initial weights, embeddings, the Bi-LSTM on them, and the fine-tuned encoder."""
    key, shards = encoder.key, shards_of(output / encoder.shards)
    weights = output / "runs" / f"{key}-weights" / "model"
    scratch = {"family": encoder.family, **encoder.model}
    common = {
        "task": {"name": "classification"},
        "evaluation": {"every_epochs": 1, "best": "accuracy"},
        "log": {"every_steps": size["log"]},
    }
    bilstm = {
        "model": {"family": "bilstm", **classifier},
        **common,
        "batch": {"global": 64},
        "optimizer": {"learning_rate": 1e-3, "weight_decay": 0.0},
        "schedule": {"name": "constant", "warmup_ratio": 0.05, "epochs": size["epochs"]},
        "precision": {"compute": "fp32"},
    }
    initial = {  # the encoder keeps what it begins with
        "model": {**scratch, "trainable": "head"},
        "task": {"name": "classification"},
        "data": {**shards, "validation": [], "test": []},
        "optimizer": {"learning_rate": 1e-9},
        "schedule": {"steps": 1},
    }
    return {
        **({f"{key}-weights": initial} if encoder.random else {}),
        f"{key}-embeddings": {
            "run": {"mode": "embed"},
            "model": {"pretrained": str(weights)} if encoder.random else encoder.model,
            "data": shards,
            "embed": {"pooling": pooling},
        },
        **{bilstm_of(key, kind): {**bilstm, "data": shards_of(embeddings(output, key, kind))} for kind in TYPES},
        f"{key}-finetune": {
            "model": scratch if encoder.random else encoder.model,
            **common,
            "data": shards,
            "batch": {"global": 32},
            "optimizer": {"learning_rate": 1e-3 if encoder.random else 5e-5},
            "schedule": {"warmup_ratio": 0.1, "epochs": size["finetuned"]},
        },
    }


def bilstm_of(key, kind):
    return f"{key}-bilstm-{kind}"


def embeddings(output, key, kind):
    return output / "runs" / f"{key}-embeddings-{kind}" / "embeddings"


def layouts(ranks, blocks):
    """[(name, label, settings, ranks)] of the Bi-LSTM's rows."""
    quarter = blocks // 4
    balances = [(2 * quarter, 2 * quarter), (3 * quarter, quarter), (quarter, 3 * quarter)]
    gpipe = {"parallel.pipeline": 2, "parallel.pipeline_schedule": "gpipe"}
    found = [
        ("none", "no parallelism", {"batch.micro": 32}, 1),
        ("data", f"data {ranks}, synchronous", {"parallel.data": ranks, "batch.micro": 64 // ranks}, ranks),
        (
            "accumulation",
            f"data {ranks}, accumulation",
            {"parallel.data": ranks, "batch.micro": max(1, 16 // ranks)},
            ranks,
        ),
        (
            "zero2",
            f"data {ranks}, ZeRO 2, offload",
            {"parallel.data": ranks, "parallel.zero": 2, "parallel.offload": True, "batch.micro": 64 // ranks},
            ranks,
        ),
        ("layers", "layers on 2 devices", {**gpipe, "batch.micro_batches": 1}, 2),
    ]
    for first, second in balances:
        found += [
            (
                f"gpipe-{first}-{second}-{chunks}",
                f"GPipe [{first}, {second}], {chunks} chunks",
                {**gpipe, "parallel.balance": [first, second], "batch.micro_batches": chunks},
                2,
            )
            for chunks in CHUNKS
        ]
    return found


def variants_of(encoder, ranks, blocks):
    key, label = encoder.key, encoder.label
    if encoder.random:
        yield Variant(f"{key}-weights", f"{label}: weights", input=f"{key}-weights", once=True, hidden=True)
    for kind in TYPES:
        yield Variant(
            f"{key}-embeddings-{kind}",
            f"{label}: embeddings, {kind}",
            {"embed.type": kind},
            input=f"{key}-embeddings",
            once=True,
            hidden=True,
            needs=(f"{key}-weights",) if encoder.random else (),
        )
    for name, what, settings, count in layouts(ranks, blocks):
        yield Variant(
            f"{key}-{name}",
            f"{label}: {what}",
            settings,
            count,
            PUBLISHED.get(key, {}) if name == "data" else {},
            input=bilstm_of(key, TYPES[0]),
            needs=(f"{key}-embeddings-{TYPES[0]}",),
        )
    for kind in TYPES[1:]:
        yield Variant(
            f"{key}-{kind}",
            f"{label}: no parallelism, {kind} embeddings",
            {"batch.micro": 32},
            1,
            input=bilstm_of(key, kind),
            needs=(f"{key}-embeddings-{kind}",),
        )
    yield Variant(f"{key}-finetuned", f"{label}: fine-tuned, {ranks} ranks", {}, ranks, input=f"{key}-finetune")
    yield Variant(
        f"{key}-finetuned-one", f"{label}: fine-tuned, 1 rank", {}, 1, note="scaling", input=f"{key}-finetune"
    )


def plan(options, given):
    path = table_of(options.data, COLUMNS)
    size, ranks, problems = SIZES[options.size], options.ranks or 2, []
    encoders = encoders_of(options, given)
    sizes = sizes_of(
        given.classifier or size["classifier"], ("layers", "hidden"), ("layers", "hidden"), "--classifier", problems
    )
    if problems:
        raise StudyError("\n".join(problems))
    blocks = sizes["layers"] + 2
    if blocks % 4:
        raise StudyError(
            f"--classifier: layers={sizes['layers']}: the balances divide its layers and 2 more blocks into quarters;"
            " take 2, 6, 10, …"
        )
    if ranks < 2 or 64 % ranks:
        raise StudyError(f"--ranks {ranks}: batches of 64 need 2, 4, 8, 16, 32 or 64 ranks")
    classifier = {
        "num_hidden_layers": sizes["layers"],
        "hidden_size": sizes["hidden"],
        "hidden_dropout_prob": 0.1,
        "classifier_dropout": 0.1,
    }
    inputs = {}
    for encoder in encoders:
        inputs |= inputs_of(encoder, options.output, size, classifier, given.pooling)
    first = encoders[0]
    variants = [variant for encoder in encoders for variant in variants_of(encoder, ranks, blocks)]
    variants.append(
        Variant(
            f"{first.key}-killed",
            f"{first.label}: fine-tuned, {ranks} ranks, killed and resumed",
            {"checkpoint.every_steps": 3},
            ranks,
            killed=True,
            input=f"{first.key}-finetune",
            note="all ranks are killed after a checkpoint; the run resumes from it and must end with the same numbers",
        )
    )
    measures = [
        Measure("accuracy", "accuracy", metric("test", "accuracy"), 3),
        Measure("margin", "above the majority, points", source_tables.margin, 1),
        Measure("precision", "precision", metric("test", "precision"), 3),
        Measure("recall", "recall", metric("test", "recall"), 3),
        Measure("f1", "F1", metric("test", "f1"), 3),
        Measure("loss", "test loss", metric("test", "loss"), 3),
        Measure("epoch", "min an epoch", lambda run: epoch_seconds(run) / 60, 4, change=True),
        Measure("rate", "sequences/s", rate, 0),
        Measure("utilisation", "utilisation, %", of_samples("utilisation", 100), 1),
        Measure("memory", "mean memory, MiB a rank", of_samples("memory", 2**-20), 0),
        Measure("peak", "peak memory, MiB a rank", lambda run: float(max(most_of_ranks(run))), 0),
    ]
    report = source_tables.Report(encoders, size)
    return Plan(
        "Sources of texts: embeddings and a Bi-LSTM in several layouts",
        {encoder.shards: prep_of(encoder, path, size) for encoder in encoders},
        inputs,
        variants,
        measures,
        [path],
        f"{first.key}-none",
        shrunk_of(options, encoders, size, given),
        others=report.majority,
        tables=report.tables,
        pictures=lambda study, runs: source_pictures.draw(study, runs, encoders),
        compared=lambda study, runs: source_pictures.compared(study, runs, encoders),
        learned=source_tables.learned,
    )


def shrunk_of(options, encoders, size, given):
    """What differs from the paper."""
    said = [
        f"{encoder.label}: its weights are not trained before the texts are embedded, so its figures say nothing about"
        " a pretrained encoder;"
        f" its vocabulary ({size['words']:,} tokens) is trained on the training texts."
        for encoder in encoders
        if encoder.random
    ]
    if size["sample"]:
        said.append(f"{size['sample']} texts, of sources with at least {size['rows']}.")
    if size["max_tokens"] < 512:
        said.append(f"Texts are cut at {size['max_tokens']} tokens.")
    said.append(
        f"A row has learnt if its accuracy is {source_tables.MARGIN:g} percentage points above the share of the largest"
        " source; the table has each row's margin."
    )
    said.append(
        "A text has an embedding of each token."
        if given.pooling == "tokens"
        else f"A text has one embedding (pooling {given.pooling}), as theirs by the size of their files; the"
        " Bi-LSTM then reads sequences of one element."
    )
    if not options.gpu:
        said.append(
            "On CPUs, in fp32: utilisation is the part of the threads' time in which processors worked, waits of MPI"
            " included; memory counts what ranks share with each of them."
        )
    return said

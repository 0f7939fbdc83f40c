"""Study 3: knowledge distillation in fp32 and in 16 bits, on WikiQA's answer ranking."""

import math

import numpy as np

import paired_statistics
import distillation_pictures
import wikiqa
from command_line import SCRATCH, StudyError, model_of, sizes_of_folder
from study_plan import Measure, Plan, Variant
from measures import epoch_seconds, metric, of_samples, peak_memory, rate, runtime, trained

ABOUT = f"""Distillation: a smaller student of BERT ranks the sentences that may answer a question, alone, under a
BERT teacher in fp32, and under it in mixed precision, data parallel; beside them a plain BERT in fp32 on one rank.
Batches of 32 pairs, 3 epochs.

{wikiqa.DATA}

The teacher is fine-tuned first; a finished one is kept. The table has MAP, MRR, precision, recall and F1 of the
held-out questions, time, utilisation, memory and power; a second one compares the rows in pairs over seeds and over
questions: bootstrap intervals, Wilcoxon's test and effect sizes."""

OWN_MODELS = True
SEEDS = {"tiny": 2, "small": 5, "full": 5}
SIZES = {
    "tiny": {"max_tokens": 64, "epochs": 2, "questions": 60, "words": 1000, "log": 2, "checkpoint": 2},
    "small": {"max_tokens": 64, "epochs": 3, "questions": 120, "words": 8192, "log": 10, "checkpoint": 20},
    "full": {"max_tokens": 256, "epochs": 3, "questions": 0, "words": 30522, "log": 20, "checkpoint": 100},
}
TEACHERS = {"tiny": "layers=2,hidden=32,heads=2", "small": "layers=4,hidden=128,heads=2"}
THRESHOLD = -2.09  # raw score of the probability 0.11, from which WikiQA's authors count the best sentence as an answer


def add_options(parser):
    parser.add_argument(
        "--teacher",
        default="",
        metavar="FOLDER|SIZES",
        help="BERT, a Hugging Face folder or sizes of one from scratch (the default of tiny and small); full needs it",
    )
    parser.add_argument(
        "--student",
        default="",
        metavar="FOLDER|SIZES",
        help="the smaller model (default: the teacher's sizes with half its layers, from scratch)",
    )


def models_of(options, given):
    """The tables [model] of teacher and student, their vocabulary, and the sizes of the teacher."""
    problems = []
    teacher, vocabulary = model_of(given.teacher, TEACHERS.get(options.size, ""), problems, "--teacher")
    student, own = model_of(given.student, TEACHERS.get(options.size, SCRATCH["small"]), problems, "--student")
    if problems:
        raise StudyError("\n".join(problems))
    sizes = sizes_of_folder(vocabulary, "--teacher") if vocabulary else {"family": "bert", **teacher}
    if not given.student:
        if sizes["num_hidden_layers"] < 2:
            raise StudyError(
                "--teacher: it has one layer; half of it is no student: take a larger one, or name a --student"
            )
        student = {**sizes, "num_hidden_layers": sizes["num_hidden_layers"] // 2}
    return (teacher if vocabulary else sizes), student, vocabulary or own, sizes


def begins_of(student, sizes):
    """The teacher's blocks with which a student of its sizes begins, evenly spread; [] for any other student."""
    own, all_ = student.get("num_hidden_layers", 0), sizes["num_hidden_layers"]
    if (
        own > all_
        or any(student.get(key) != sizes[key] for key in ("hidden_size", "num_attention_heads", "intermediate_size"))
        or "pretrained" in student
    ):
        return []
    return [i * all_ // own for i in range(own)]


def energy(run):
    """Wh of all ranks' devices in training."""
    values = np.asarray(run.ranks.get("energy", []), dtype=float)
    return float(np.nansum(values)) / 3600 if np.isfinite(values).any() else math.nan


def loss_scale(run):
    """The fp16 loss scale at the end."""
    return float(run.loss_scale["scale"][-1]) if len(run.loss_scale["scale"]) else math.nan


def skipped(run):
    """Steps that the loss scale skipped."""
    return float(run.loss_scale["skipped"][-1]) if len(run.loss_scale["skipped"]) else math.nan


def plan(options, given):
    size, ranks = SIZES[options.size], options.ranks or 2
    if ranks < 2:
        raise StudyError("--ranks 1: the rows of students are data parallel: take 2 or more")
    sources = wikiqa.Sources(options, size["questions"])
    teacher, student, vocabulary, sizes = models_of(options, given)
    scratch = {"teacher": "pretrained" not in teacher, "student": "pretrained" not in student}
    train, validation, test = map(str, sources.paths)
    prep = {
        "source": {"format": "wikiqa", "files": [train], "validation_files": [validation], "test_files": [test]},
        "split": {"train": 1.0, "validation": 0.0, "test": 0.0, "seed": 1},
        "tokenizer": {
            "max_tokens": size["max_tokens"],
            **(
                {"vocabulary": vocabulary}
                if vocabulary
                else {"type": "wordpiece", "lowercase": True, "train_size": size["words"]}
            ),
        },
        "task": {"name": "answer_ranking"},
    }
    common = {
        "task": {"name": "answer_ranking", "answer_threshold": THRESHOLD},
        "batch": {"global": 32},
        "schedule": {"name": "linear", "warmup_ratio": 0.1, "epochs": size["epochs"]},
        "evaluation": {"every_epochs": 1, "best": "map"},
        "log": {"every_steps": size["log"]},
        "precision": {"compute": "fp32"},
    }
    rates = {who: {"learning_rate": 5e-4 if fresh else 5e-5} for who, fresh in scratch.items()}
    distill = {
        "teacher": str(options.output / "runs" / "teacher" / "model"),
        "losses": ["kl"],
        "alpha": 0.5,
        "temperature": 2.0,
    }
    inputs = {
        "teacher": {**common, "model": teacher, "optimizer": rates["teacher"]},
        "student": {**common, "model": student, "optimizer": rates["student"]},
    }
    inputs["distilled"] = {**inputs["student"], "distill": distill}
    variants = [
        Variant(
            "teacher",
            f"the teacher, {ranks} ranks",
            {},
            ranks,
            input="teacher",
            once=True,
            note="its model is the teacher of all seeds",
        ),
        Variant(
            "baseline",
            "BERT in fp32, 1 rank (baseline)",
            {},
            1,
            input="teacher",
            note="no distillation, no parallelism",
        ),
        Variant("student", f"student alone, fp32, {ranks} ranks", {}, ranks, input="student"),
        Variant(
            "distilled",
            f"student under the teacher, fp32, {ranks} ranks",
            {},
            ranks,
            input="distilled",
            needs=("teacher",),
        ),
        *(
            Variant(
                f"distilled-{compute}",
                f"student under the teacher, {compute}, {ranks} ranks",
                {"precision.compute": compute},
                ranks,
                input="distilled",
                needs=("teacher",),
            )
            for compute in (("fp16", "bf16") if options.gpu else ("fp16",))
        ),
    ]
    if blocks := begins_of(student, sizes):
        inputs["begun"] = {**inputs["student"], "distill": {**distill, "initialize": blocks}}
        variants.append(
            Variant(
                "begun",
                f"student under the teacher, fp32, {ranks} ranks, begins with its blocks {', '.join(map(str, blocks))}",
                {},
                ranks,
                input="begun",
                needs=("teacher",),
                note="not in the paper",
            )
        )
    counts = sorted({1, *(2**i for i in range(1, 10) if 2**i < ranks)})
    variants += [
        Variant(
            f"ranks{count}",
            f"student under the teacher, fp32, {count} rank{'s' if count > 1 else ''}",
            {},
            count,
            input="distilled",
            needs=("teacher",),
            once=True,
            note="scaling",
        )
        for count in counts
    ]
    variants.append(
        Variant(
            "killed",
            f"student under the teacher, fp32, {ranks} ranks, killed and resumed",
            {"checkpoint.every_steps": size["checkpoint"]},
            ranks,
            killed=True,
            input="distilled",
            needs=("teacher",),
            once=True,
            note="all ranks are killed after a checkpoint; the run resumes and must end with the numbers of seed 1",
        )
    )
    measures = [
        Measure("map", "MAP", metric("test", "map"), 3),
        Measure("mrr", "MRR", metric("test", "mrr"), 3),
        Measure("precision", "precision", metric("test", "precision"), 3),
        Measure("recall", "recall", metric("test", "recall"), 3),
        Measure("f1", "F1", metric("test", "f1"), 3),
        Measure("best_f1", "best F1", metric("test", "best_f1"), 3),
        Measure("trained", "parameters", trained, 0),
        Measure("runtime", "training, s", runtime, 1, change=True),
        Measure("epoch", "s an epoch", epoch_seconds, 2),
        Measure("rate", "pairs/s", rate, 0, change=True),
        Measure("utilisation", "utilisation, %", of_samples("utilisation", 100), 1),
        Measure("memory", "mean memory, MiB a rank", of_samples("memory", 2**-20), 0),
        Measure("peak", "peak memory, MiB a rank", peak_memory, 0),
        Measure("scale", "loss scale at the end", loss_scale, 0),
        Measure("skipped", "skipped steps", skipped, 0),
    ]
    if options.gpu:
        measures += [
            Measure("power", "power, W a GPU", of_samples("power"), 0),
            Measure("energy", "energy, Wh", energy, 2),
        ]
    return Plan(
        "Knowledge distillation and mixed precision: WikiQA",
        {"shards": prep},
        inputs,
        variants,
        measures,
        sources.paths,
        "baseline",
        shrunk_of(options, sources, size, scratch),
        write_sources=sources.write,
        others=chance,
        tables=paired_statistics.tables,
        pictures=distillation_pictures.draw,
        compared=distillation_pictures.compared,
        learned=learned,
    )


def chance(study):
    """The row of rankings in random order: expected values over the held-out questions."""
    groups = wikiqa.relevance_of(study.plan.sources[2])
    known = [labels for labels in groups if any(labels)]
    return [("sentences in random order", wikiqa.chance_of(known), "expected values")] if known else []


def learned(rows):
    """A model whose ranking is no better than a random one has learnt nothing."""
    random = next((row.mean("map") for row in rows if row.label == "sentences in random order"), 0.0)
    return [
        f"{row.label}: MAP {row.mean('map'):.3f} is not above {random:.3f}, that of a random order"
        for row in rows
        if row.name and math.isfinite(row.mean("map")) and row.mean("map") <= random
    ]


def shrunk_of(options, sources, size, scratch):
    """What differs from the paper."""
    said = ["The paper publishes no figures of these rows that could stand beside ours."]
    said += [
        f"The {who} begins with random weights, so its figures say nothing about a pretrained one."
        for who, fresh in scratch.items()
        if fresh
    ]
    if size["questions"]:
        said.append(
            f"At most {size['questions']} questions for training, texts of at most {size['max_tokens']} tokens."
        )
    said.append(sources.held_out)
    said.append(
        "Precision, recall and F1 are WikiQA's of answer triggering: the best sentence of a question is its answer"
        " if its probability is at least 0.11. Best F1 is that of the best such limit."
    )
    if not options.gpu:
        said.append(
            "On CPUs: utilisation is the part of the threads' time in which processors worked, waits of MPI included;"
            " there is no power."
        )
    return said

"""Study 5: what makes fine-tuning cheaper, one setting after the other, on SQuAD 2.0."""

import squad
from study_plan import Measure, Plan, Variant
from measures import device_time, metric, of_samples, peak_memory, planned, rate, runtime, steps, trained

ABOUT = f"""Efficient fine-tuning: BERT on SQuAD 2.0, 8 sequences a batch, 3 epochs, learning rate 3e-5, on one rank, with attention and padding
as other programs have them (A1 to A5), with parts of the model trained (B), with less memory (C), and with other kernels (D).

{squad.DATA}

The table has trained parameters, runtime, steps and sequences a second, exact match, F1, peak memory and the device's
time; the kernels of the two rows that the paper profiled are a picture."""

LENGTHS = {"tiny": {"paragraphs": 6, "epochs": 1, "log": 5}, "small": {"paragraphs": 1, "epochs": 1, "log": 5},
           "full": {"paragraphs": 0, "epochs": 3, "log": 50}}
LORA = {"model.trainable": "lora", "model.lora.targets": ["query", "key", "value"]}
A3 = {"data.padding": "max", "run.epilogues": "on", "precision.weight_gradients": "auto"}
B1 = {**LORA, "model.lora.train_head": False, "optimizer.learning_rate": 5e-4}
PROFILED = ("A3", "B1", "D1")
PUBLISHED = ("A1", "A2", "A3", "A4", "A4-nb", "B1")
D1_STEPS = 25  # the third to the 22nd are profiled


def published(hours, minutes, rate_, exact, f1):
    return {"runtime": 3600 * hours + 60 * minutes, "rate": rate_, "exact": exact, "f1": f1}


def in_16_bits(rows, options):
    """The rows that the paper ran, in fp16 as theirs and, on CPUs, in bf16 as on GPUs. The published numbers stand beside the rows themselves."""
    for compute in ("fp16",) if options.gpu else ("fp16", "bf16"):
        for row in rows:
            yield Variant(f"{row.name}-{compute}", f"{row.label}, {compute}", {**row.settings, "precision.compute": compute}, row.ranks,
                          note="gradients of weights stay in fp32" if row.name == "A3" else "")


def variants_of(options):
    """The rows; learning rates of parts of a model are those that suit them (theirs are not published)."""
    layers, hidden = options.sizes["num_hidden_layers"], options.sizes["hidden_size"]
    longest = {"data.padding": "longest"}
    fast = {"optimizer.learning_rate": 1e-3}
    padded = {"data.padding": "max"}
    unfused = {"run.epilogues": "off", "precision.weight_gradients": "fp32"}
    rows = [
        Variant("A1", "A1 plain attention, padding to the maximum", {"model.attention": "plain", **padded, **unfused}, 1,
                published(2, 30, 43.9, 73.2, 76.6),
                "on GPUs our plain attention is a slow portable kernel, not what other programs compute" if options.gpu else ""),
        Variant("A2", "A2 fused attention", {**padded, **unfused}, 1, published(2, 37, 42.0, 73.3, 76.6)),
        Variant("A3", "A3 fused epilogues, 16-bit gradients", {**A3, "log.profile": True}, 1, published(2, 25, 45.3, 73.4, 76.9),
                "theirs is a compiled graph" + ("" if options.gpu else "; on CPUs the keys change nothing, and A3 is A2")),
        Variant("A4", "A4 padding to the longest, by length", {**longest, "data.order": "by_length"}, 1, published(1, 36, 68.5, 25.8, 26.9),
                "theirs lost its labels; ours must keep F1"),
        Variant("A4-nb", "A4 without the grouping", longest, 1, published(2, 8, 51.6, 73.8, 77.2)),
        Variant("A5", "A5 A3 without padding", {}, 1, note="not in the paper; the rows below have no padding either"),
        Variant("B1", "B1 LoRA of query, key, value, rank 8", {**B1, "log.profile": True}, 1,
                {**published(1, 34, 70.4, 51.1, 55.0), "trained": 442368},
                "the head keeps its values, as theirs did by their count of parameters: 12 · 3 · 2 · 768 · 8"),
        Variant("B1-head", "B1 with a trained head", {**B1, "model.lora.train_head": True}, 1),
        *(Variant(f"B1-{rank}", f"B1 with a trained head, rank {rank} at 1e-3", {**LORA, "model.lora.rank": rank, "model.lora.alpha": 2.0 * rank, **fast}, 1)
          for rank in (16, 64) if rank < hidden),
        Variant("B2", "B2 BitFit", {"model.trainable": "bitfit", **fast}, 1),
        Variant("B3", "B3 the lower two thirds frozen", {"model.freeze_layers": 2 * layers // 3}, 1),
        Variant("C1", "C1 8-bit AdamW", {"optimizer.name": "adamw8bit"}, 1),
        Variant("C2", "C2 activations computed again", {"model.recompute": "blocks"}, 1),
        *(Variant(f"D1-{row}-{kernels}", f"D1 {row}, {what}",
                  {**own, "run.kernels": kernels, "log.profile": True, "schedule.steps": D1_STEPS, "data.validation": []}, 1,
                  note=f"{D1_STEPS} steps, for times and kernels alone")
          for row, own in (("A3", A3), ("B1", B1))
          for kernels, what in (("library", "products by a library"), ("portable", "portable products"))
          if options.has_library or kernels != "library"),
        Variant("ranks2", "A5 on 2 ranks", {"parallel.data": 2}, 2, note="scaling"),
        Variant("killed", "A5 killed and resumed", {"checkpoint.every_steps": 10}, 1, killed=True,
                note="the rank is killed after a checkpoint; the run resumes from it and must end with the same numbers"),
    ]
    repeated = PROFILED if options.size == "small" and not options.gpu else PUBLISHED
    return [*rows, *in_16_bits([row for row in rows if row.name in repeated], options)]


def plan(options, given):
    length = LENGTHS[options.size]
    prep, sources, shrunk = squad.prepared(options, length["paragraphs"])
    train = {"task": {"name": "question_answering"}, "batch": {"global": 8},
             "optimizer": {"learning_rate": squad.learning_rate(options)},
             "schedule": {"name": "linear", "warmup_ratio": 0.1},
             "log": {"every_steps": length["log"]}}
    measures = [Measure("trained", "trained parameters", trained, 0), Measure("runtime", "training, s", runtime, 1, change=True),
                Measure("step_rate", "steps/s", lambda run: steps(run) / runtime(run), 2), Measure("rate", "sequences/s", rate, 1),
                Measure("loss", "validation loss", metric("validation", "loss"), 3), Measure("exact", "EM", metric("validation", "exact"), 2), Measure("f1", "F1", metric("validation", "f1"), 2),
                Measure("has_answer_f1", "F1 of answers", metric("validation", "has_answer_f1"), 2),
                Measure("memory", "peak memory, MiB", peak_memory, 0, change=True), Measure("mean_memory", "mean memory, MiB", of_samples("memory", 2**-20), 0),
                Measure("states", "optimizer states, MiB", planned("optimizer states"), 1), Measure("activations", "activations, MiB", planned("activations"), 1),
                Measure("device", "device, ms a step", lambda run: 1e3 * device_time(run), 2)]
    if not options.gpu:
        shrunk.append("On CPUs, in fp32 but for the rows that name another format; theirs ran on a T4 in fp16.")
    else:
        shrunk.append("In bf16 but for the rows that name another format; theirs ran on a T4 in fp16.")
    variants = variants_of(options)
    for variant in variants:
        if "schedule.steps" not in variant.settings:
            variant.settings |= {"schedule.epochs": length["epochs"], "evaluation.every_epochs": 1}
    whole = Plan("Efficient fine-tuning: SQuAD 2.0", {"shards": prep}, {"train": train}, variants, measures,
                 sources.all(), "A1", shrunk, headline="rate", relative=True, write_sources=sources.write, pictures=pictures,
                 learned=squad.learned)
    return squad.begin_with_answers(whole, options, sources)


def pictures(study, runs):
    """The kernels of the rows that the paper profiled."""
    import plot_profile

    profiled = [run for name, run in runs.items() if name.split("-")[0] in PROFILED and len(run.profile.get("name", []))]
    yield from plot_profile.draw(profiled) if profiled else []

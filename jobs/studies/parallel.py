"""Study 2: data, pipeline and mixed parallelism on SQuAD 2.0."""

import squad
from study_plan import Measure, Plan, Variant
from measures import metric, of_efficiency, of_samples, peak_memory, rate, runtime, steps

ABOUT = f"""Parallel architectures: BERT on SQuAD 2.0 with data parallelism (the baseline), two and four pipeline stages, and both
together; 16 sequences in all, 5 epochs, learning rate 3e-5, 500 warm-up steps, weight decay 0.01, mixed precision.

{squad.DATA}

The table has runtime, sequences a second, steps, validation loss, utilisation and memory of the devices, statistical efficiency
and goodput, each with its change to the baseline. All layouts compute the same training: their losses lie on one curve."""

LENGTHS = {"tiny": {"paragraphs": 6, "epochs": 1, "warmup_steps": 4, "evaluate": 10, "checkpoint": 5, "log": 1},
           "small": {"paragraphs": 2, "epochs": 1, "warmup_steps": 5, "evaluate": 200, "checkpoint": 200, "log": 10},
           "full": {"paragraphs": 0, "epochs": 5, "warmup_steps": 500, "evaluate": 500, "checkpoint": 1000, "log": 50}}


def plan(options, given):
    length, ranks = LENGTHS[options.size], options.ranks or 4
    prep, sources, shrunk = squad.prepared(options, length["paragraphs"])
    if ranks % 2:
        raise squad.StudyError(f"--ranks {ranks}: two pipeline stages need an even number of ranks")
    train = {"task": {"name": "question_answering"}, "batch": {"global": 16},
             "optimizer": {"learning_rate": squad.learning_rate(options), "weight_decay": 0.01, "epsilon": 1e-6},
             "schedule": {"name": "linear", "warmup_steps": length["warmup_steps"], "epochs": length["epochs"]},
             "evaluation": {"every_steps": length["evaluate"]}, "checkpoint": {"every_steps": length["checkpoint"]},
             "log": {"every_steps": length["log"]}}
    layers = options.model.get("num_hidden_layers")
    if layers is not None and layers < ranks:  # of a model from scratch: each stage has a block at least
        options.model["num_hidden_layers"] = ranks
        shrunk.append(f"The model has {ranks} blocks, one for each pipeline stage.")
    published = [{"runtime": 3688, "rate": 37.98, "loss": 0.603, "utilisation": 95, "efficiency": 0.0163, "goodput": 0.618},
                 {"runtime": 3148, "rate": 70.4, "loss": 0.870, "utilisation": 14.5, "efficiency": 7.1e-5, "goodput": 0.0049},
                 {"runtime": 1930, "rate": 116.3, "loss": 1.090, "utilisation": 6.7, "efficiency": 1.1e-4, "goodput": 0.0129}]
    variants = [Variant("data", f"data {ranks} (baseline)", {"parallel.data": ranks}, ranks, published[0]),
                Variant("one", "1 rank", {}, 1, note="scaling"),
                Variant("data2", "data 2", {"parallel.data": 2}, 2, note="scaling"),
                Variant("pipeline2", "pipeline 2", {"parallel.pipeline": 2}, 2, published[1], "theirs: 1 × 2"),
                Variant("data-pipeline2", f"data {ranks // 2} × pipeline 2", {"parallel.pipeline": 2}, ranks),
                Variant("pipeline", f"pipeline {ranks}", {"parallel.pipeline": ranks}, ranks, published[2] if ranks == 4 else {}, "theirs: 1 × 4"),
                Variant("killed", f"data {ranks}, killed and resumed", {"parallel.data": ranks}, ranks, killed=True,
                        note="all ranks are killed after a checkpoint; the run resumes from it and must end with the same numbers")]
    if ranks == 2:
        variants = [variant for variant in variants if variant.name not in ("data2", "data-pipeline2", "pipeline2")]
    measures = [Measure("runtime", "training, s", runtime, 1, change=True), Measure("rate", "sequences/s", rate, 1, change=True),
                Measure("steps", "steps", steps, 0), Measure("loss", "validation loss", metric("validation", "loss"), 4, change=True),
                Measure("exact", "EM", metric("validation", "exact"), 2), Measure("f1", "F1", metric("validation", "f1"), 2),
                Measure("has_answer_f1", "F1 of answers", metric("validation", "has_answer_f1"), 2),
                Measure("utilisation", "utilisation, %", of_samples("utilisation", 100), 1, change=True),
                Measure("memory", "mean memory, MiB a rank", of_samples("memory", 2**-20), 0), Measure("peak", "peak memory, MiB a rank", peak_memory, 0),
                Measure("efficiency", "statistical efficiency", of_efficiency("efficiency"), 4, change=True),
                Measure("goodput", "goodput", of_efficiency("goodput"), 3, change=True)]
    if not options.gpu:
        shrunk.append("On CPUs, in fp32: utilisation is the part of the threads' time in which processors worked, waits of MPI included;"
                      " mean memory counts what ranks share with each of them.")
    shrunk.append("Statistical efficiency and goodput follow Pollux (Qiao et al. 2021); the paper does not define its own.")
    whole = Plan("Parallel architectures: SQuAD 2.0 in several layouts", {"shards": prep}, {"train": train}, variants,
                 measures, sources.all(), "data", shrunk, headline="rate", relative=True, write_sources=sources.write, learned=squad.learned)
    return squad.begin_with_answers(whole, options, sources)

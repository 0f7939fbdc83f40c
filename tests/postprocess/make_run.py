"""Makes run directories as bert_hpc leaves them, with curves that look like real ones, for tests of postprocess/ and for
looking at its pictures: python make_run.py DIR [classification|regression|unfinished|scaling]"""

import pathlib
import sys
import zlib

import h5py
import numpy as np

CATEGORIES = """noun.Tops noun.act noun.animal noun.artifact noun.attribute noun.body noun.cognition noun.communication
noun.event noun.feeling noun.food noun.group noun.location noun.motive noun.object noun.person noun.phenomenon noun.plant
noun.possession noun.process noun.quantity noun.relation noun.shape noun.state noun.substance noun.time verb.body verb.change
verb.cognition verb.communication verb.competition verb.consumption verb.contact""".split()


def step_columns(steps, epochs, rng, ranks=2, tokens_per_second=60000.0, floor=0.7):
    at = np.arange(1, steps + 1)
    warm = max(1, steps // 10)
    loss = floor + 2.8 * np.exp(-at / (0.07 * steps)) + 0.35 * np.exp(-at / (0.5 * steps))
    tokens = rng.normal(1126, 60, steps).astype(np.int64)
    speed = tokens_per_second * np.where(at < 4, 0.5, 1.0) * rng.normal(1, 0.04, steps)
    return {
        "step": at,
        "epoch": at * epochs / steps,
        "loss": loss * rng.lognormal(0, 0.09, steps),
        "learning_rate": 1e-3 * np.minimum(at / warm, (steps - at) / (steps - warm)),
        "gradient_norm": 1.2 * rng.lognormal(0, 0.25, steps) * (1 + 6 * np.exp(-at / (0.01 * steps))),
        "samples": np.full(steps, 64),
        "tokens": tokens,
        "seconds": tokens / speed,
        "skipped": np.zeros(steps, dtype=np.int64),
    }


def confusion(rng, classes, samples, accuracy):
    sizes = rng.dirichlet(np.full(classes, 1.5)) * samples
    matrix = np.zeros((classes, classes), dtype=np.int64)
    for row in range(classes):
        wrong = rng.dirichlet(np.full(classes, 0.15))
        wrong[row] = 0
        share = np.clip(rng.normal(accuracy, 0.1), 0.2, 0.98)
        shares = (1 - share) * wrong / max(wrong.sum(), 1e-9)
        shares[row] = share
        matrix[row] = rng.multinomial(max(5, int(sizes[row])), shares / shares.sum())
    return matrix


def classification_evaluations(rng, steps, count, names):
    at = np.linspace(steps / count, steps, count).astype(np.int64)
    accuracy = 0.79 - 0.25 * np.exp(-3 * at / steps) + rng.normal(0, 0.004, count)
    return {
        "step": at,
        "loss": 0.78 + 1.1 * np.exp(-4 * at / steps) + 0.06 * (at / steps) ** 3,
        "accuracy": accuracy,
        "macro_f1": accuracy - 0.06 + rng.normal(0, 0.004, count),
        "macro_precision": accuracy - 0.04 + rng.normal(0, 0.006, count),
        "macro_recall": accuracy - 0.07 + rng.normal(0, 0.004, count),
        "confusion_matrix": np.stack([confusion(rng, len(names), 11400, value) for value in accuracy]),
    }


TIMERS = {"forward": 0.36, "backward": 0.41, "gradient reduction": 0.06, "optimizer": 0.07, "data": 0.02, "evaluation": 0.05,
          "checkpoint": 0.01, "output": 0.02, "other": 0.05}


def write_metrics(folder, steps, evaluations, ranks=2, status="finished", task="classification", labels=(), mode="train",
                  resolved_input="[run]\nmode = \"train\"\n", restarts=()):
    folder.mkdir(parents=True, exist_ok=True)
    total = float(steps["seconds"].sum()) if steps else 12.0
    with h5py.File(folder / "metrics.h5", "w", libver="v110") as file:
        file.attrs.update({"schema": "bert_hpc metrics 1", "version": "0.1.0", "source_revision": "0123456789abcdef",
                           "resolved_input": resolved_input, "started": "2026-01-31T12:00:00Z",
                           "updated": "2026-01-31T12:03:00Z", "status": status, "mode": mode, "task": task,
                           "parallel_data": ranks, "parallel_pipeline": 1, "parallel_tensor": 1})
        text = h5py.string_dtype()
        file.attrs.create("restarts", list(restarts), (len(restarts),), dtype=text)
        file.attrs.create("label_names", list(labels), (len(labels),), dtype=text)
        for name in ("step", "epoch", "loss", "learning_rate", "gradient_norm", "samples", "tokens", "seconds", "skipped"):
            kind = np.int64 if name in ("step", "samples", "tokens", "skipped") else np.float64
            file[f"steps/{name}"] = np.asarray(steps[name] if steps else [], dtype=kind)
        if steps and "computed_tokens" in steps:  # older versions lack it
            file["steps/computed_tokens"] = steps["computed_tokens"]
        file.create_group("evaluations")
        for split, columns in evaluations.items():
            for name, values in columns.items():
                file[f"evaluations/{split}/{name}"] = values
        sections = TIMERS if status == "finished" else {}
        file.create_dataset("timers/name", data=list(sections), shape=(len(sections),), dtype=text)
        average = np.array(list(sections.values())) * total
        file["timers/calls"] = np.full(len(sections), len(steps["step"]) if steps else 1, dtype=np.int64)
        if sections:
            file.attrs["total_timed_seconds"] = float(average.sum())
        file["timers/seconds_min"], file["timers/seconds_avg"], file["timers/seconds_max"] = 0.93 * average, average, 1.06 * average
        file.create_dataset("ranks/host", data=[f"node{i // 2 + 1}" for i in range(ranks)], dtype=text)
        file.create_dataset("ranks/device", data=["CPU"] * ranks, dtype=text)
        file["ranks/threads"] = np.ones(ranks, dtype=np.int64)
        file["ranks/peak_memory"] = np.full(ranks, 310 << 20, dtype=np.int64)
        file["ranks/power"] = np.full(ranks, np.nan)
        # Written at the end of a run.
        seconds = float(np.sum(steps["seconds"])) if steps and status == "finished" else 0.0
        for name, share in (("computing", 0.8), ("communicating", 0.1), ("waiting", 0.05)):
            file[f"ranks/{name}"] = seconds * share * (1 - 0.02 * np.arange(ranks) / ranks)
        file["ranks/utilisation"] = file["ranks/computing"][()] / seconds if seconds > 0 else np.full(ranks, np.nan)


# section, kind, name, calls of a step, share of the time, operations and bytes of a second
CALLS = (("forward", "products", "native product", 13, 0.22, 45e9, 6e9), ("backward", "products", "native product", 26, 0.43, 44e9, 7e9),
         ("forward", "kernels", "bert_hpc::ops::fused_attention_forward", 2, 0.03, 20e9, 4e9),
         ("backward", "kernels", "bert_hpc::ops::fused_attention_backward", 2, 0.06, 24e9, 5e9),
         ("forward", "kernels", "bert_hpc::ops::residual_layer_norm_forward", 5, 0.03, np.nan, 14e9),
         ("backward", "kernels", "bert_hpc::ops::residual_layer_norm_backward", 5, 0.04, np.nan, 15e9),
         ("optimizer", "kernels", "bert_hpc::ops::adamw", 1, 0.09, np.nan, 11e9),
         ("backward", "kernels", "bert_hpc::ops::embedding_backward", 1, 0.02, np.nan, 9e9),
         ("", "fills", "fill_on_device", 1, 0.0004, np.nan, 30e9), ("gradient reduction", "waits", "wait_for_kernels", 1, np.nan, np.nan, np.nan))


def add_profile(folder, ranks=2, steps=20, seconds=0.4, scale=(1,) * len(CALLS), peak_gflops=None):
    """/profile in a metrics.h5 that exists; `scale` of each call's time."""
    with h5py.File(folder / "metrics.h5", "a") as file:
        group = file.create_group("profile")
        sections, kinds, names, calls, shares, flops, rates = zip(*CALLS)
        for name, texts in (("section", sections), ("kind", kinds), ("name", names)):
            group.create_dataset(name, data=list(texts), dtype=h5py.string_dtype())
        average = np.array(shares) * seconds * np.array(scale)
        group["calls"] = np.array(calls) * ranks * steps
        group["seconds_min"], group["seconds_avg"], group["seconds_max"] = 0.9 * average, average, 1.1 * average
        group["flops"], group["bytes"] = np.array(flops) * average * ranks, np.array(rates) * average * ranks
        group.attrs.update({"first_step": 3, "steps": steps, "ranks": ranks, "device": "CPU", "seconds": seconds, "cost_seconds": 0.001})
        if peak_gflops:
            group.attrs["peak_gflops"] = peak_gflops


def write_journal(folder, steps, torn=True):
    """The same steps as a journal whose last line the kill cut."""
    lines = ["bert_hpc metrics journal 1",
             "\t".join(["info", "0.1.0", "0123", "2026-01-31T12:00:00Z", "train", "classification", "a = 1\\n", "2", "x\\\\y", "z",
                        "1", "HDF5", "1.10.8", "3", "2", "1", "1", "6.5", "1", "0.5"])]
    columns = ("step", "epoch", "loss", "learning_rate", "gradient_norm", "samples", "tokens", "seconds", "skipped")
    for number, row in enumerate(zip(*(steps[name] for name in columns))):
        time = ["1770000000.25"] if number > 0 else []  # lines of older versions have none
        if time and "computed_tokens" in steps:
            time.append(str(steps["computed_tokens"][number]))
        lines.append("\t".join(["step", *(repr(value.item()) for value in row), *time]))
    lines.append("\t".join(["evaluation", "validation", "2", "0.5", "1", "accuracy", "0.75", "2", "4", "3", "1", "0", "4", "1770000000.5",
                            "6", "4", "4", "3", "5", "3", "4"]))
    lines.append("evaluation\tvalidation\t3\t0.5\t0\t2\t4\t3")  # makes no sense
    lines.append("total\ttimed_seconds\t1.5")
    content = b"".join(b"%08x %s\n" % (zlib.crc32(line.encode()), line.encode()) for line in lines)
    if torn:
        content += b"12345678 step\t99\t1"
    (folder / "metrics.journal").write_bytes(content)


def make_classification(folder, status="finished", share=1.0, updates=5700, classes=33):
    """`share` of a run of so many updates."""
    rng = np.random.default_rng(1)
    names = CATEGORIES[:classes]
    steps = step_columns(updates, 4, rng)
    evaluations = {"validation": classification_evaluations(rng, updates, 8, names)}
    kept = int(updates * share)
    steps = {name: values[:kept] for name, values in steps.items()}
    shown = evaluations["validation"]["step"] <= kept
    evaluations["validation"] = {name: values[shown] for name, values in evaluations["validation"].items()}
    write_metrics(folder, steps, evaluations, status=status, labels=names)


def make_test(folder, classes=33):
    rng = np.random.default_rng(5)
    names = CATEGORIES[:classes]
    row = {name: values[-1:] for name, values in classification_evaluations(rng, 1, 1, names).items()}
    write_metrics(folder, None, {"test": row}, labels=names, mode="evaluate")


def write_predictions(folder, task, label, prediction, names=()):
    with h5py.File(folder / "predictions.h5", "w") as file:
        file.attrs.update({"schema": "bert_hpc predictions 1", "task": task})
        file.attrs.create("label_names", list(names), (len(names),), dtype=h5py.string_dtype())
        file["source_index"], file["label"], file["prediction"] = np.arange(len(prediction)), label, prediction


def make_regression(folder, samples=900):
    rng = np.random.default_rng(3)
    steps = step_columns(400, 6, rng, tokens_per_second=9000, floor=0.4)
    at = np.arange(50, 401, 50)
    rmse = 0.72 + 0.6 * np.exp(-at / 120)
    columns = {"step": at, "loss": rmse**2, "rmse": rmse, "mae": 0.78 * rmse, "r2": 1 - rmse**2 / 1.2,
               "pearson": 1.05 - 0.4 * rmse, "spearman": np.full(len(at), np.nan)}
    write_metrics(folder, steps, {"validation": columns}, task="regression")
    actual = np.clip(np.round(2 * rng.normal(6.2, 1.1, samples)) / 2, 1, 9)
    predicted = 6.2 + 0.75 * (actual - 6.2) + rng.normal(0, 0.55, samples)
    actual[:3] = np.nan
    write_predictions(folder, "regression", actual.astype("f4"), predicted.astype("f4"))


def make_scaling(folder):
    paths = []
    for ranks, efficiency in ((1, 1.0), (2, 0.97), (4, 0.93), (8, 0.86)):
        rng = np.random.default_rng(ranks)
        steps = step_columns(300, 1, rng, tokens_per_second=30000.0 * ranks * efficiency)
        paths.append(folder / f"ranks-{ranks}")
        write_metrics(paths[-1], steps, {}, ranks=ranks)
    return paths


def main():
    folder = pathlib.Path(sys.argv[1])
    kind = sys.argv[2] if len(sys.argv) > 2 else "classification"
    makers = {"classification": make_classification, "regression": make_regression, "scaling": make_scaling, "test": make_test,
              "unfinished": lambda folder: make_classification(folder, status="running", share=0.3)}
    makers[kind](folder)


if __name__ == "__main__":
    main()

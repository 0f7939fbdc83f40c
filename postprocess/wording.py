"""Display forms of names and numbers."""

import math


# Of classification, as in the program's log; metrics.h5 of older versions and journals lack the attribute "label".
MACRO_MEANS = {"precision": "macro precision", "recall": "macro recall", "f1": "macro f1"}


# Of question answering, instead of the attribute "label", which is short for the log.
OF_QUESTIONS = {"exact": "exact match", "has_answer_exact": "exact match (answerable questions)", "has_answer_f1": "F1 (answerable questions)",
                "no_answer_exact": "exact match (unanswerable questions)", "best_exact": "best exact match",
                "best_exact_threshold": "null threshold of the best exact match", "best_f1_threshold": "null threshold of the best F1"}


def metric_label(name, task, given=None):
    """A metric's display name, `given` by metrics.h5 or not: the meaning of the dataset "f1" depends on the task."""
    if task == "question_answering" and name in OF_QUESTIONS:
        return OF_QUESTIONS[name]
    return given or (MACRO_MEANS.get(name, name) if task == "classification" else name)


def spoken(name):
    """A display form of a column or metric name."""
    known = {"rmse": "RMSE", "mae": "MAE", "r2": "R²", "f1": "F1", "mcc": "MCC", "qwk": "QWK", "auc": "AUC", "ece": "ECE", "pearson": "Pearson correlation",
             "spearman": "Spearman correlation", "concordance": "concordance correlation"}
    return " ".join(known.get(word, word) for word in name.replace("_", " ").split())


def minus(text):
    """Replaces the hyphen before numbers with the minus sign."""
    return text.replace("-", "−")


def capital(text):
    return text[:1].upper() + text[1:]


def duration_text(seconds):
    if not math.isfinite(seconds):
        return "–"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(round(seconds))
    hours, minutes = whole // 3600, whole % 3600 // 60
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {whole % 60:02d} s"


def bytes_text(size):
    unit, factor = ("GiB", 2**30) if size >= 2**30 else ("MiB", 2**20) if size >= 2**20 else ("KiB", 2**10)
    return f"{size / factor:.1f} {unit}"


def flop_text(count):
    """Floating-point operations with four digits: "612.1 GFLOP"."""
    for unit, factor in (("EFLOP", 1e18), ("PFLOP", 1e15), ("TFLOP", 1e12), ("GFLOP", 1e9)):
        if count >= factor:
            return f"{count / factor:.4g} {unit}"
    return f"{count / 1e6:.4g} MFLOP"


def shortened(text, width):
    """Truncates at the front: runs differ at the end of their names."""
    return text if len(text) <= width else "…" + text[1 - width :]


def begun(text, width=22):
    """Truncates at the end: classes differ at the beginning of their names."""
    return text if len(text) <= width else text[: width - 1] + "…"


def excerpt(text, width, part=""):
    """At most `width` characters with `part` in their middle, where the text has it; else its begin."""
    at = text.find(part) if part else -1
    if at < 0 or at + len(part) < width:
        return begun(text, width)
    begin = max(0, min(at - (width - len(part)) // 2, len(text) - width + 1))
    return "…" + begun(text[begin:], width - 1)


def rate_text(value):
    """Three significant digits: "3.52", "120,543"."""
    if not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}"


def titled(kind, runs, name=None):
    """"Loss: quickstart", with the state of an unfinished run; `name` replaces the run's name."""
    if len(runs) > 1:
        return f"{kind}: {name}" if name else kind
    run = runs[0]
    return f"{kind}: {name or run.name}" + ("" if run.status == "finished" else f" ({run.status})")


def file_name(text):
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in text)

"""Names and figures as people read them."""

import math


def spoken(name):
    """A column's name for people."""
    known = {"rmse": "RMSE", "mae": "MAE", "r2": "R²", "f1": "F1", "mcc": "MCC", "pearson": "Pearson correlation",
             "spearman": "Spearman correlation"}
    return " ".join(known.get(word, word) for word in name.split("_"))


def minus(text):
    """With the minus sign for the hyphen before numbers."""
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


def shortened(text, width):
    """The end tells runs apart."""
    return text if len(text) <= width else "…" + text[1 - width :]


def begun(text, width=22):
    """The beginning tells classes apart."""
    return text if len(text) <= width else text[: width - 1] + "…"


def title_of(kind, runs):
    """"Loss: quickstart", with the state of a run that is not finished."""
    if len(runs) > 1:
        return kind
    run = runs[0]
    return f"{kind}: {run.name}" + ("" if run.status == "finished" else f" ({run.status})")


def file_name(text):
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in text)

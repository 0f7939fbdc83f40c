"""Why a run failed: its exit status and last error, from what jobs/grid.sh keeps beside the runs, or from the run's log."""

import re


def lines_of(path):
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def record_of(folder, what):
    """The file of jobs/grid.sh about a run: "status" or "errors"."""
    return folder.parent / ".grid" / f"{folder.name}.{what}"


def is_recorded(folder):
    """True if the folder is that of a run of jobs/grid.sh; it may be missing if the run failed at once or has not started."""
    return folder.name in lines_of(record_of(folder, "x").with_name("names")) or record_of(folder, "status").is_file()


def status_of(folder):
    """The state of a run without metrics."""
    if any((folder / file).is_file() for file in (".status", "log.txt")):
        word = next(iter(lines_of(folder / ".status")), "").strip()
        return "running" if word == "running" else "failed"
    return "failed" if any(record_of(folder, what).is_file() for what in ("status", "settings")) else "not started"


def last_error(lines):
    """The last line with an error, with the next one if that lists what is wrong; None without one."""
    found = [number for number, line in enumerate(lines) if re.search(r"\b(error|fatal): ", line)]
    if not found:
        return None
    text = re.sub(r"^.*?\b(?=(?:error|fatal): )", "", lines[found[-1]].strip())
    more = lines[found[-1] + 1].strip() if text.endswith(":") and found[-1] + 1 < len(lines) else ""
    return f"{text} {more}".strip()


def reason_of(folder):
    """One line: "exit status 2: error: …". """
    status = next(iter(lines_of(record_of(folder, "status"))), "")
    log = lines_of(folder / "log.txt")
    error = last_error(lines_of(record_of(folder, "errors"))) or last_error(log)
    if error is None and log:
        error = f"no error in its log, which ends: {log[-1].strip()}"
    parts = [f"exit status {status}"] * (status not in ("", "0")) + [error] * (error is not None)
    return ": ".join(parts) or "it left no log"

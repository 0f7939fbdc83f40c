"""Waits for events: a file appears, a line is printed, a process ends, the state of a process in /proc changes. No result
depends on the time that a wait takes; the limit ends a test that hangs."""

import pathlib
import subprocess
import time

LIMIT = 300  # seconds


def wait_until(condition, what, process=None, output=None, limit=LIMIT):
    """Returns the first true value of condition(). Fails, naming `what`, if the process ends before or after `limit` seconds.
    output: a path, a list of lines or a function; its end is part of the message."""
    end = time.monotonic() + limit
    while True:
        ended = process is not None and process.poll() is not None
        if value := condition():
            return value
        if ended:
            raise AssertionError(f"waited for {what}: the process has ended with {process.returncode}\n{text_of(output)}")
        if time.monotonic() > end:
            raise AssertionError(f"waited for {what}: it did not come in {limit} s\n{text_of(output)}")
        time.sleep(0.01)


def exit_status(process, what, output=None, limit=LIMIT):
    """Returns the status with which the process ends. Fails after `limit` seconds."""
    try:
        return process.wait(timeout=limit)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"{what} does not end in {limit} s\n{text_of(output)}") from None


def text_of(output):
    """Returns the last 4,000 characters of an output in any of the forms above; "" if there is none yet."""
    if output is None:
        return ""
    if isinstance(output, pathlib.Path):
        text = output.read_text(errors="replace") if output.exists() else ""
    else:
        text = "".join(output() if callable(output) else output)
    return text[-4000:]


def contains(path, words, count=1):
    """Whether the file holds these words so often."""
    return path.exists() and path.read_text(errors="replace").count(words) >= count


def recorded_steps(directory):
    """Returns the number of steps in the journal of a run so far."""
    journal = directory / "metrics.journal"
    return journal.read_bytes().count(b"step\t") if journal.exists() else 0


def wait_until_recorded(directory, steps, process, output=None):
    """Waits until a run has recorded so many steps."""
    wait_until(lambda: recorded_steps(directory) >= steps, f"{steps} steps in {directory}", process, output)


def pauses(process, thread):
    """Returns how often a thread of this name, of this process, has waited so far; None if there is no such thread."""
    for task in pathlib.Path(f"/proc/{process}/task").glob("*"):
        try:
            if (task / "comm").read_text().strip() == thread:
                return int((task / "status").read_text().partition("\nvoluntary_ctxt_switches:")[2].split()[0])
        except OSError:  # the thread has ended
            pass
    return None


def wait_for_pauses(processes, thread, count):
    """Waits until that thread of each of these processes has waited `count` times more."""
    wait_until(lambda: all(pauses(process, thread) is not None for process in processes), f"threads '{thread}'")
    begin = {process: pauses(process, thread) for process in processes}
    wait_until(lambda: all((pauses(process, thread) or 0) >= begin[process] + count for process in processes),
               f"{count} rounds of the threads '{thread}' of {processes}")

"""Words of sources, tests and scripts are those of the field. The tables say what to write instead. A word that is still
used has a limit, which a change may lower and never raise; it is refused when the last use is gone."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("src", "include", "tests", "jobs", "postprocess", "input")
SUFFIXES = (".hpp", ".cpp", ".inc", ".py", ".sh", ".toml", ".md", ".txt")

# Pattern → what to write.
REFUSED = {
    r"\bEncoderHalf\b|\bmake_half\b|\bdeclare_half\b": "Sublayer",
    r"\btake_saved\b|\btake_kept\b": "allocate_saved, allocate_deferred",
    r"(?<!transformers\.)\bBertConfig\b|\bBertHead\b": "ModelConfig, HeadKind",
    r"\bTaskTraits\b|\bShardTask\b|\bEvaluationSums\b": "tasks::Task, objectives::Objective, metrics::Evaluation",
    r"\bSealedSign\b|\bsealed_sign\b|\bSignOfLife\b": "SignedHeartbeat, HeartbeatState",
    r"\bSilenceTable\b": "LivenessTable",
    r"\b[Ss]tandstill\b": "GlobalStall, stall",
    r"\blasting_differences\b|\binput_differences\b": "non_resumable, input_changes",
    r"\bother_bits\b": "reproducibility_breaks",
    r"\btellers\b": "contributors",
    r"(?i)\boctets?\b|octet_": "8-wide pack",
    r"\boptimizer_update\b": "flat, update_ranges",
    r"\badd_surroundings\b": "add_runtime_overhead",
    r"(?i)\b(somebody|everybody|everyone)_?\b": "another user, all ranks",
    r"\btell_?\w*\(": "report",
    r"(?i)\b(told|tells|untold)\b": "reports, states, names, reported, given",
    r"(?i)\bwhoever\b": "any rank that, the caller that",
    r"(?i)\bnobody\b": "no rank, no process, no caller",
    r"(?i)\banew\b": "again",
    r"(?i)\b(goes|go|went) on\b": "continues, resumes",
    r"(?i)\bmend(s|ed)?\b": "fixes, repairs",
    r"\bAsideFile\b|\baside_(file|name|prefix)\b": "TemporaryFile, staging",
    r"\bHeadRows\b|\bhead_rows\b": "LogitPositions, logit_positions, attention_rows",
    r"\bsums_\b": "reducer_, accumulators_",
    r"(?i)\bturned\b|\b[tT]urned_\w|\w_turned\b|\bTurnedGradient\b": "transposed, rotated, reversed",
    r"\bdecoder_apart\b|\b(taken?|work)_apart\b|\bTakenApart\b": "separate_decoder, decomposed",
    r"(?i)\b(whence|thereof|beheld|dearest|by and by|of its own accord)\b": "from where, of it, seen, best, later, by itself",
}

# Pattern → (most uses, what to write). A distance is "apart"; folders are "set aside"; a key may turn something off; a
# computation that overwrites its input is "in place"; a rounding error has units "in the last place".
LIMITED = {
    r"(?i)\baside\b|_aside\b": (27, "staging, temporary"),
    r"(?i)\bturns\b": (33, "rotates, alternates, converts"),
    r"(?i)\bapart\b": (38, "separately, separate"),
    r"(?i)(?<!\bin )\bplaces?\b(?!=\d)|(?<!in)_places?\b|\bplace_": (6, "index, offset, position, path, location, coordinates"),
}


def matches_of(pattern, text, words):
    """Matches of a pattern in a text. words: its different words, a line each, as most files have none of a pattern's words."""
    is_of_words = not re.search(r" |\\\(", pattern)
    return re.finditer(pattern, text) if not is_of_words or re.search(pattern, words) else ()


def problems_of(path, text):
    words = "\n".join(sorted(set(re.findall(r"\w+", text))))
    for pattern, instead in REFUSED.items():
        for match in matches_of(pattern, text, words):
            number = text.count("\n", 0, match.start()) + 1
            yield f"{path}:{number}: \"{match[0]}\": write {instead}"


def files():
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", *FOLDERS], capture_output=True, text=True)
    names = listed.stdout.split("\n") if listed.returncode == 0 else []
    found = [ROOT / name for name in names if name] or [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    return [path for path in found if path.suffix in SUFFIXES and path.is_file() and path != pathlib.Path(__file__).resolve()]


assert list(problems_of("x", "class EncoderHalf {"))
assert not list(problems_of("x", "class Sublayer {"))
assert list(problems_of("x", "// Told once; the run then goes on.")) and not list(problems_of("x", "// Reported once; the run then resumes."))
texts = {path.relative_to(ROOT): path.read_text(errors="replace") for path in files()}
assert len(texts) > 300, "hardly any file was found"
problems = [p for path, text in texts.items() for p in problems_of(path, text)]
for pattern, (most, instead) in LIMITED.items():
    uses = [f"{path}: {match[0]}" for path, text in texts.items() for match in re.finditer(pattern, text)]
    if len(uses) > most:
        problems.append(f"{pattern}: {len(uses)} uses, at most {most} allowed: write {instead}\n  " + "\n  ".join(uses))
print("\n".join(problems) or f"{len(texts)} files keep to the words")
sys.exit(1 if problems else 0)

"""Comments are plain technical English. Each pattern below is a habit that stops a native reader, with the number of its
uses; a change may lower a number and never raise it. Lower the limit when the uses have become fewer. Cells of the tables
in the manual of inputs are short: what needs more stands below the table."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("src", "include", "tests")
SUFFIXES = (".hpp", ".cpp", ".inc")
MOST_WORDS = 40  # of a cell
# Name → (pattern of a whole comment, most uses, what to write instead).
HABITS = {
    "begins with Of": (r"^Of\b", 30, "name the thing: \"Number of …\", \"Bytes of …\""),
    "begins with That, Those, Where, With what": (r"^(That|Those|Where|With what|And does)\b", 8, "begin with a noun or a verb"),
    "a question": (r"^(Has|Have|Is|Are|Does|Do|Can|May|Was|Will|Must)\b[^.]*\?", 0, "\"Whether …\" or \"True if …\""),
    "where for if": (r"\bwhere (there|it|they|one|a|an|the|no|none|nothing|any|each|all)\b", 231, "\"if\" or \"when\"; \"where\" is for locations"),
    "those that": (r"\bthose (that|which|of which)\b", 49, "name what they are"),
    "of what": (r"\bof what\b", 51, "name what it is"),
}


def comments_of(text):
    """The comments of a file: neighbouring lines that hold nothing else are one."""
    block = []
    for line in text.splitlines():
        whole = re.match(r"^\s*//[/!]?<?\s?(.*)$", line)
        if whole:
            block.append(whole[1])
            continue
        if block:
            yield " ".join(block)
            block = []
        behind = re.search(r"[;{},)]\s*//[/!]?<?\s(.*)$", line)
        if behind:
            yield behind[1]
    if block:
        yield " ".join(block)


def count(comments):
    return {name: sum(len(re.findall(pattern, comment)) for comment in comments) for name, (pattern, _, _) in HABITS.items()}


sample = list(comments_of("// Of a file: its\n// bytes.\nint x;  ///< where it is read\n/// Has it a name?\n"))
assert sample == ["Of a file: its bytes.", "where it is read", "Has it a name?"], sample
assert count(sample)["begins with Of"] == count(sample)["a question"] == count(sample)["where for if"] == 1

files = [p for folder in FOLDERS for p in sorted((ROOT / folder).rglob("*")) if p.suffix in SUFFIXES]
assert len(files) > 300, "hardly any file was found"
found = count([comment for path in files for comment in comments_of(path.read_text(errors="replace"))])
problems = [f"{name}: {found[name]} comments, at most {most} allowed: write {instead}"
            for name, (_, most, instead) in HABITS.items() if found[name] > most]
problems += [f"input/README.md, line {number}: a cell of {len(cell.split())} words, at most {MOST_WORDS} allowed"
             for number, line in enumerate((ROOT / "input/README.md").read_text().splitlines(), 1) if line.startswith("|")
             for cell in line.split("|") if len(cell.split()) > MOST_WORDS]
print("\n".join(problems) or f"{len(files)} files: " + ", ".join(f"{name} {found[name]}" for name in HABITS))
sys.exit(1 if problems else 0)

"""src/README.md is short and true: the files that it names exist, and its table of what can be added leads to files that
know the examples it gives."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOP = ("src/", "include/", "tests/", "input/", "jobs/", "postprocess/")
MOST_LINES = 250
SUFFIXES = (".hpp", ".cpp", ".py", ".md", ".toml", ".txt")


def names_in(text):
    """Paths in back quotes, without those that stand for many: MODULE, NAME, KIND."""
    for name in re.findall(r"`([\w./-]+)`", text):
        if "/" in name and "NAME" not in name and "MODULE" not in name:
            if name.startswith(TOP) or name.endswith(SUFFIXES):
                yield name


def missing(text, root):
    """Headers may be named as they are included, without include/bert_hpc/ or src/."""
    tops = (root, root / "include/bert_hpc", root / "src")
    return [name for name in names_in(text) if not any((top / name).exists() for top in tops)]


def rows_to_add(text):
    """The cells of each row of the table under "To add …"."""
    section = re.search(r"^## To add.*?$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    table = [line for line in section.group(1).splitlines() if line.startswith("|")] if section else []
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def in_quotes(cell):
    return re.findall(r"`([^`]+)`", cell)


def found(names, text):
    """Whether one of the names begins a word of the text: wikiqa of wikiqa_format."""
    return any(re.search(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![a-z0-9])", text) for name in names)


def names_of(example, patterns):
    """How a registration may name an example, which is a file or an identifier: its stem, and what NAME stands for."""
    yield pathlib.Path(example).stem if "/" in example else example
    for pattern in patterns:
        match = re.fullmatch(re.escape(pattern).replace("NAME", r"(\w+)"), example)
        if match:
            yield match.group(1)


def unregistered(rows, read):
    """read: path → text. A registration without a file is a member, which the example has."""
    for what, new, registration, examples in rows:
        patterns = [name for name in in_quotes(new) if "NAME" in name]
        files = [name for name in in_quotes(registration) if name.startswith(TOP)]
        members = [name.removesuffix("()") for name in in_quotes(registration) if "/" not in name]
        if not in_quotes(examples):
            yield f"{what}: names no example"
        if not files and not members and registration != "none":
            yield f"{what}: names no registration"
        for file in files:
            if not any(found(list(names_of(example, patterns)), read(file)) for example in in_quotes(examples)):
                yield f"{what}: {file} does not know {examples}"
        for example in in_quotes(examples) if not files else ():
            for member in members:
                if not found([member], read(example)):
                    yield f"{what}: {example} has no {member}"


assert list(names_in("`src/a.cpp` `x/NAME.cpp` `core/b.hpp` `word` `a → b`")) == ["src/a.cpp", "core/b.hpp"]
table = "## To add …\n\n| a | new | registration | example |\n|---|---|---|---|\n| x | `src/NAME_x.cpp` | %s | %s |\n## Next\n"
for registration, example, registered, is_true in [
        ("`src/registry.cpp`", "`src/b_x.cpp`", "b_kind()", True), ("`src/registry.cpp`", "`src/b_x.cpp`", "bb_kind()", False),
        ("`src/a.hpp`", "`words`", "enum { sets, words }", True), ("`src/a.hpp`", "`words`", "enum { sets }", False),
        ("`results` of it", "`src/b_x.cpp`", ".results = {}", True), ("`results` of it", "`src/b_x.cpp`", "", False),
        ("none", "`src/b_x.cpp`", "", True), ("it", "`src/b_x.cpp`", "", False), ("none", "words", "", False)]:
    rows = rows_to_add(table % (registration, example))
    assert len(rows) == 1 and is_true == (not list(unregistered(rows, lambda _: registered))), (registration, example, registered)
text = (ROOT / "src/README.md").read_text()
names = list(names_in(text))
assert len(names) >= 10, "src/README.md names hardly any file"
problems = [f"names {name}, which does not exist" for name in missing(text, ROOT)]
if text.count("\n") > MOST_LINES:
    problems.append(f"has {text.count(chr(10))} lines, at most {MOST_LINES}: keep what a reader needs")
if not problems:
    rows = rows_to_add(text)
    assert len(rows) >= 10, "src/README.md lists hardly anything that can be added"
    problems += unregistered(rows, lambda name: (ROOT / name).read_text())
print("\n".join(f"src/README.md: {problem}" for problem in problems) or f"{len(names)} names, all of files")
sys.exit(1 if problems else 0)

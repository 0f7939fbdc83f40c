"""Checks the relative links of the Markdown files below a folder: each must lead to a file in that folder, and to a
heading of it if the link names one. Used on the checkout (tests/style/test_links.py) and on the installed tree.
    python3 check_links.py FOLDER"""

import pathlib
import re
import sys

FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$", re.MULTILINE)


def anchors(text):
    """The anchors that sites give to headings: lower case, without punctuation, '-' for blanks."""
    names = set()
    for title in HEADING.findall(FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "").lower()
        base = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        name, count = base, 0
        while name in names:
            count += 1
            name = f"{base}-{count}"
        names.add(name)
    return names


def problems_of(root, path):
    text = path.read_text(encoding="utf-8")
    for match in LINK.finditer(CODE.sub("", FENCE.sub("", text))):
        link = match.group(1) or match.group(2)
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path.resolve()
        where = f"{path.relative_to(root)}: ({link})"
        if not target.exists():
            yield f"{where} leads nowhere"
        elif root.resolve() not in [target, *target.parents]:
            yield f"{where} leads out of {root}"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text(encoding="utf-8")):
            yield f"{where}: {target.name} has no heading of that name"


def check(root, paths):
    """Prints the problems and a summary; returns the number of problems."""
    problems = [problem for path in sorted(paths) for problem in problems_of(root, path)]
    print("\n".join(problems) or f"links of {len(paths)} files lead somewhere")
    return len(problems)


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    found = list(folder.rglob("*.md"))
    sys.exit(1 if not found or check(folder, found) else 0)

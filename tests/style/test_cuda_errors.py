"""A query of an event or of a stream clears CUDA's last error. "Not ready" is an answer, but the runtime also keeps it as
the thread's last error, and the check of the next launch would throw it."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUERY = re.compile(r"\bcuda(?:Event|Stream)Query\s*\(")
CLEARS = re.compile(r"\b(?:cudaGetLastError|clear_last_error)\s*\(")
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
LINES = 6  # within which the call must follow


def after(code, begin):
    """The code from `begin` to the end of its block, at most LINES lines."""
    depth = lines = 0
    for end in range(begin, len(code)):
        depth += {"{": 1, "}": -1}.get(code[end], 0)
        lines += code[end] == "\n"
        if depth < 0 or lines > LINES:
            return code[begin:end]
    return code[begin:]


def problems_of(path, text):
    code = COMMENT_OR_TEXT.sub(lambda found: "\n" * found.group().count("\n"), text)
    for query in QUERY.finditer(code):
        if not CLEARS.search(after(code, query.end())):
            line = code.count("\n", 0, query.start()) + 1
            yield f"{path}:{line}: {query.group()}…) is not followed by a call that clears the last error"


def test_of_the_test():
    path = pathlib.Path("x.cpp")
    good = "bool f() {\n  auto s = cudaEventQuery(e);\n  if (s == cudaErrorNotReady) {\n    cudaGetLastError();\n  }\n}\n"
    assert not list(problems_of(path, good))
    assert not list(problems_of(path, good.replace("cudaGetLastError", "core::clear_last_error")))
    assert list(problems_of(path, good.replace("cudaGetLastError();", "// cudaGetLastError();")))
    # Not in another function, and not far away.
    assert list(problems_of(path, "bool f() { return cudaStreamQuery(s) == cudaSuccess; }\nvoid g() { cudaGetLastError(); }\n"))
    assert list(problems_of(path, good.replace("\n  if", "\n" * 8 + "  if")))


test_of_the_test()
files = [path for folder in ("include", "src", "tests") for path in sorted((ROOT / folder).rglob("*")) if path.suffix in (".cpp", ".hpp", ".cu")]
queries = 0
problems = []
for path in files:
    text = path.read_text()
    queries += len(QUERY.findall(text))
    problems += problems_of(path.relative_to(ROOT), text)
print("\n".join(problems) or f"{len(files)} files, {queries} queries, each followed by a clearing call")
sys.exit(1 if problems or not files else 0)

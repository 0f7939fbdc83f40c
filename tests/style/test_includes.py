"""The files keep the design's rules: modules depend one way only, each vendor's header has one home, and no file is long.
The first two are read off the #include lines, so that a shortcut shows in review as a change of the tables here."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)

# What a module may include besides itself and core.
MAY_USE = {
    "core": set(),
    "comm": set(),
    "metrics": set(),
    "tasks": {"metrics"},
    "config": {"tasks", "metrics"},
    "io": {"metrics"},
    "tokenize": set(),
    "score": {"tokenize", "metrics"},
    "ops": set(),
    "data": {"io", "tokenize", "tasks"},
    "layers": {"ops", "comm"},
    "model": {"layers", "ops", "comm", "io"},
    "train": {"model", "layers", "ops", "comm"},
    "objectives": {"train", "layers", "data", "score", "config", "tasks", "metrics", "io", "ops"},
    "prep": {"tokenize", "data", "config", "tasks", "comm", "io"},
    "app": {"objectives", "score", "tokenize", "tasks", "metrics", "train", "model", "layers", "ops", "comm", "data", "config", "io"},
}

# The rooms of a module, from the lowest: a room may include itself and those before it; files in no room, all of them.
ROOMS = {
    "app": ("run", "engine", "plan", "report", "checkpoint"),
}

MOST_LINES = 400

# Components (x.hpp with x.cpp) that include each other in loops. A change may lower the number and never raise it.
MOST_IN_LOOPS = 42

# Header pattern → the files (below src/ or include/bert_hpc/) that may include it.
HOMES = {
    r"mpi\.h": r"comm/|io/hdf5/|app/runtime",
    r"hdf5\.h|H5.*\.h": r"io/hdf5/",
    r"toml\+\+/.*": r"config/parse_toml",
    r"cblas\.h": r"ops/.*gemm_blas|ops/.*blas",
    r"oneapi/dnnl/.*|dnnl.*": r"ops/.*onednn",
    r"Kokkos_.*": r"ops/|core/device",
    r"nccl\.h": r"comm/cuda/nccl_",
    r"cublas.*": r"ops/.*cublas",
    r"cuda_runtime.*": r"core/cuda/|ops/cuda/|ops/device_runtime|comm/cuda/",
    r"nvml\.h": r"core/nvml|app/nvml",
    r"nvtx3/.*": r"core/cuda/",
    r"utf8proc\.h": r"tokenize/",
    r"(arrow|parquet)/.*": r"prep/readers/parquet_",
    r"zstd(_errors)?\.h": r"prep/readers/zstd_data",
    r"nlohmann/.*": r"core/json|io/|model/|data/|tokenize/|prep/|score/|objectives/",
    r"catch2/.*": r"$^",
}


def level(parts):
    """Of a file, "module/room/rest" or "module/rest": the number of its room, or one above all rooms."""
    rooms = ROOMS[parts[0]]
    if len(parts) < 3:
        return len(rooms)
    return rooms.index(parts[1])


def problems_of(path, text, own_path):
    """own_path: "module/rest" below src/ or include/bert_hpc/."""
    module = own_path.split("/")[0] if "/" in own_path else None
    for name in INCLUDE.findall(text):
        if name.startswith(("bert_hpc/", "app/")) and module is not None:
            path_in_module = name.removeprefix("bert_hpc/").split("/")
            other = path_in_module[0]
            if module not in MAY_USE:
                yield f"{path}: module {module} is not in the table of tests/style/test_includes.py"
                return
            if other not in MAY_USE[module] | {module, "core"}:
                yield f"{path}: {module} may not include {other} ({name})"
            if other == module in ROOMS and level(path_in_module) > level(own_path.split("/")):
                yield f"{path}: the room above may not be included ({name})"
        for pattern, home in HOMES.items():
            if re.fullmatch(pattern, name) and not re.match(home, own_path):
                yield f"{path}: <{name}> belongs into {home} only"
    if path.suffix == ".hpp" and "#pragma once" not in text:
        yield f"{path}: no #pragma once"
    lines = text.count("\n")
    if lines > MOST_LINES:
        yield f"{path}: {lines} lines, at most {MOST_LINES}: part it by what it is for"


def check(root):
    problems = []
    count = 0
    for base in (root / "src", root / "include" / "bert_hpc"):
        for path in sorted(base.rglob("*")):
            if path.suffix in (".cpp", ".hpp"):
                count += 1
                problems += problems_of(path.relative_to(root), path.read_text(), str(path.relative_to(base)))
    return count, problems


def component_of(own_path):
    return re.sub(r"\.(cpp|hpp)$", "", own_path)


def in_loops(edges):
    """Components that lie on a loop. edges: component → those that it includes."""
    def reaches(start):
        seen, todo = set(), list(edges.get(start, ()))
        while todo:
            at = todo.pop()
            if at not in seen:
                seen.add(at)
                todo += edges.get(at, ())
        return seen
    return sorted(component for component in edges if component in reaches(component))


def loops(root):
    edges = {}
    for base in (root / "src", root / "include" / "bert_hpc"):
        for path in base.rglob("*"):
            if path.suffix not in (".cpp", ".hpp"):
                continue
            own = component_of(str(path.relative_to(base)))
            for name in INCLUDE.findall(path.read_text()):
                near = (path.parent / name).resolve()
                other = name.removeprefix("bert_hpc/") if name.startswith(("bert_hpc/", "app/")) else None
                if other is None and near.is_file() and near.is_relative_to(base):
                    other = str(near.relative_to(base))
                if other is not None and component_of(other) != own:
                    edges.setdefault(own, set()).add(component_of(other))
    return in_loops(edges)


def test_of_the_test():
    """The rules bite: a wrong direction and a stray vendor header are seen."""
    cpp = pathlib.Path("x.cpp")
    assert list(problems_of(cpp, '#include "app/engine/trainer.hpp"\n', "ops/x.cpp"))
    above, below = '#include "app/plan/x.hpp"\n', '#include "app/run/x.hpp"\n'
    assert list(problems_of(cpp, above, "app/run/x.cpp")) and not list(problems_of(cpp, below, "app/plan/x.cpp"))
    assert list(problems_of(cpp, '#include "app/x.hpp"\n', "app/plan/x.cpp"))
    assert list(problems_of(cpp, "#include <hdf5.h>\n", "data/x.cpp"))
    assert list(problems_of(cpp, "#  include <Kokkos_Core.hpp>\n", "train/x.cpp"))
    assert list(problems_of(cpp, "\n" * (MOST_LINES + 1), "ops/x.cpp"))
    assert not list(problems_of(cpp, '#include "bert_hpc/core/tensor.hpp"\n#include <Kokkos_Core.hpp>\n', "ops/x.cpp"))


test_of_the_test()
assert in_loops({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"]
count, problems = check(ROOT)
looping = loops(ROOT)
if len(looping) > MOST_IN_LOOPS:
    problems.append(f"{len(looping)} components include each other in loops, at most {MOST_IN_LOOPS} may: {', '.join(looping)}")
print("\n".join(problems) or f"{count} files keep the rules; {len(looping)} components in loops")
sys.exit(1 if problems or count == 0 else 0)

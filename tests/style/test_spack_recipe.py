#!/usr/bin/env python3
"""Checks the Spack recipe without Spack: its path and name, its syntax, that it depends on every package that
CMakeLists.txt looks for, and that its options and variants exist. integration/test_spack.py runs Spack itself."""
import ast
import os
import re
from pathlib import Path

SOURCE = Path(os.environ["BERT_HPC_SOURCE"])
REPOSITORY = SOURCE / "modulefiles/spack/spack_repo/bert_hpc"
RECIPE = REPOSITORY / "packages/bert_hpc/package.py"
# What CMakeLists.txt names by a usual provider is asked for in the recipe by what it provides.
PROVIDES = {"openmpi": "mpi", "zlib": "zlib-api"}


def calls(tree: ast.AST, name: str) -> list[ast.Call]:
    return [n for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == name]


def text(node: ast.expr) -> str:
    """A string, with {…} where a loop's variable stands."""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return node.value


def package_of(spec: str) -> str:
    return re.match(r"[a-z0-9-]+", spec).group(0)


def check_layout(tree: ast.Module) -> None:
    # In package API 2 the folder's name is a Python module's; the class is that name in words' capitals.
    description = (REPOSITORY / "repo.yaml").read_text()
    assert re.search(rf"^  namespace: {REPOSITORY.name}$", description, re.M), description
    assert re.search(r"^  api: v2\.\d+$", description, re.M), description
    assert REPOSITORY.parent.name == "spack_repo"
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    assert classes == ["".join(word.capitalize() for word in RECIPE.parent.name.split("_"))], classes
    levels = int(re.search(r"parents\[(\d+)\]", RECIPE.read_text()).group(1))
    assert RECIPE.resolve().parents[levels] == SOURCE.resolve()


def check_dependencies(tree: ast.Module) -> None:
    depended = {package_of(text(call.args[0])) for call in calls(tree, "depends_on")}
    looked_for = set()
    for line in re.findall(r"bert_hpc_need\(((?:[^()]|\([^()]*\))*)\)", "".join(
            (SOURCE / file).read_text() for file in ("CMakeLists.txt", "src/cmake/bert_hpc_cuda.cmake"))):
        quoted = re.findall(r'"([^"]*)"', line)
        if len(quoted) >= 3:
            looked_for.add(package_of(quoted[-1]))
    assert len(looked_for) >= 10, looked_for
    missing = {PROVIDES.get(name, name) for name in looked_for - {"gcc"}} - depended
    assert not missing, f"the recipe does not depend on {missing}"
    oldest = re.search(r"cmake_minimum_required\(VERSION ([0-9.]+)\)", (SOURCE / "CMakeLists.txt").read_text()).group(1)
    assert f"cmake@{oldest}:" in {text(call.args[0]) for call in calls(tree, "depends_on")}


def check_options(tree: ast.Module) -> None:
    variants = {text(call.args[0]) for call in calls(tree, "variant")} | {"cuda", "cuda_arch"}
    assert {"openmp", "cuda", "cuda_arch"} <= variants
    for call in calls(tree, "depends_on") + calls(tree, "conflicts"):
        for keyword in call.keywords:
            if keyword.arg == "when" and not text(keyword.value).startswith("^"):
                used = re.findall(r"[+~]([a-z_]+)|([a-z_]+)=", text(keyword.value))
                assert {a or b for a, b in used} <= variants, text(keyword.value)
    cmake = (SOURCE / "CMakeLists.txt").read_text() + "".join(p.read_text() for p in (SOURCE / "src/cmake").glob("*.cmake"))
    defined = set(re.findall(r'define(?:_from_variant)?\("(BERT_HPC_\w+)"', RECIPE.read_text()))
    assert defined, "no option of CMakeLists.txt is set"
    for option in defined:
        assert re.search(rf"(option\(|set\(){option} ", cmake), f"CMakeLists.txt has no option {option}"


tree = ast.parse(RECIPE.read_text(), str(RECIPE))
check_layout(tree)
check_dependencies(tree)
check_options(tree)

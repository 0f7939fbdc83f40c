#!/usr/bin/env python3
"""The Spack recipe in a real Spack (SPACK_ROOT: 1.0 or newer, with its packages), which concretises every kind of it, with
what the system has as externals. Nothing is written outside of a scratch folder. Skipped where there is no Spack;
style/test_spack_recipe.py has the checks that need no Spack."""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(os.environ["BERT_HPC_SOURCE"]) / "modulefiles/spack/spack_repo/bert_hpc"


def check_with_spack(root: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="bert_hpc_spack_") as scratch:
        environment = dict(os.environ, SPACK_USER_CACHE_PATH=f"{scratch}/cache", SPACK_USER_CONFIG_PATH=f"{scratch}/config",
                           SPACK_SYSTEM_CONFIG_PATH=f"{scratch}/system", HOME=scratch)

        def spack(*arguments: str) -> str:
            done = subprocess.run([root / "bin/spack", *arguments], env=environment, capture_output=True, text=True, timeout=500)
            assert done.returncode == 0, f"spack {' '.join(arguments)}\n{done.stdout}{done.stderr}"
            return done.stdout

        spack("repo", "add", "--scope", "user", str(REPOSITORY))
        spack("external", "find", "--scope", "user", "cmake", "git", "gcc", "openmpi", "hdf5", "zlib", "ninja", "python")
        assert "catch2" in spack("info", "bert-hpc")
        for spec, expected in (("bert-hpc", ["kokkos@", "+openmp", "onednn@", "hdf5@"]), ("bert-hpc~onednn~openmp", ["openblas@"]),
                               ("bert-hpc+cuda cuda_arch=90", ["nccl@", "cuda_arch=90", "cuda@"])):
            concrete = spack("spec", *spec.split())
            for part in expected:
                assert part in concrete, f"no {part} in {spec}:\n{concrete}"
            print(f"concretised: {spec}")


if __name__ == "__main__":
    root = Path(os.environ.get("SPACK_ROOT", "/nowhere"))
    if not (root / "bin/spack").exists():
        print("skipped: no Spack here to concretise the recipe (SPACK_ROOT names one)")
        sys.exit(77)
    version = subprocess.run([root / "bin/spack", "--version"], capture_output=True, text=True, timeout=60).stdout.strip()
    if version.startswith("0."):
        print(f"skipped: Spack {version} has no tomlplusplus, and reads folders' names otherwise than 1.0")
        sys.exit(77)
    check_with_spack(root)

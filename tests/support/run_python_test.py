"""Runs one test script as __main__. If a package that it needs is not installed, the test is skipped (status 77) with
the package's name in the output, instead of failing: the program itself needs no Python."""

import os
import runpy
import sys

OPTIONAL = {"h5py", "numpy", "matplotlib", "torch", "transformers", "sentence_transformers", "safetensors", "sklearn", "tokenizers", "peft",
            "pyarrow"}

script = sys.argv[1]
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
try:
    runpy.run_path(script, run_name="__main__")
except ModuleNotFoundError as missing:
    if (missing.name or "").split(".")[0] not in OPTIONAL:
        raise
    print(f"skipped: this test needs the Python package {missing.name}")
    sys.exit(77)

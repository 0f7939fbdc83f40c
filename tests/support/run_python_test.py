"""Runs one test script as __main__. A package it needs that is not installed makes it skipped (status 77), visibly and
with the package's name, instead of failed: the program itself needs no Python."""

import os
import runpy
import sys

OPTIONAL = {"h5py", "numpy", "matplotlib", "torch", "transformers", "safetensors", "sklearn", "tokenizers"}

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

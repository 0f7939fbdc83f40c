"""Writes dynamic8.txt beside this: the values of 8-bit codes as bitsandbytes makes them, signed ones, then unsigned ones.

    pip install bitsandbytes==0.50.2 torch==2.15.0
    python3 tests/golden/optimizer/generate_dynamic8.py
"""

import pathlib

import bitsandbytes.functional

maps = [bitsandbytes.functional.create_dynamic_map(signed=signed).tolist() for signed in (True, False)]
lines = [" ".join(f"{value:.9g}" for value in values[begin:begin + 8]) for values in maps for begin in range(0, 256, 8)]
pathlib.Path(__file__).with_name("dynamic8.txt").write_text("\n".join(lines) + "\n")

"""The ids in shards equal Transformers' on hostile text, and on all of the project's sample data where that is at hand:
see tests/golden/tokenizer/compare_all.py."""
import pathlib
import runpy

script = pathlib.Path(__file__).resolve().parents[1] / "golden" / "tokenizer" / "compare_all.py"
runpy.run_path(str(script), run_name="__main__")

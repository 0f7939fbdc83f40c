"""The command line of the studies: study.py NAME [options]. jobs/study-NAME.sh calls it."""

import importlib
import sys

import harness


def run(name, words):
    try:
        return harness.main(name, importlib.import_module(name), words)
    except harness.StudyError as problem:
        for line in str(problem).splitlines():
            print(f"error: {line}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 75


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))

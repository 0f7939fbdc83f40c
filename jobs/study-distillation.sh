#!/usr/bin/env bash
# One of the studies, from the data to its table and pictures; --help prints what it does and its options.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
run_study distillation "$@"

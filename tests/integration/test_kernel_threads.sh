#!/usr/bin/env bash
# Kernels give the same bits on 1, 2 and 3 threads (see unit/ops/test_threads.cpp).
set -euo pipefail
. "$(dirname "$0")/../support/shell.sh"
program="$BERT_HPC_BUILD/tests/test_ops"
[ -x "$program" ] || skip "test_ops is not built"

for threads in 1 2 3; do
  expect_status 0 env OMP_NUM_THREADS=$threads OMP_PROC_BIND=false "$program" "[.bits]"
  expect_text "bits: "
  grep '^bits: ' "$scratch/output" >"$scratch/$threads"
done
expect cmp "$scratch/1" "$scratch/2"
expect cmp "$scratch/1" "$scratch/3"

#!/usr/bin/env bash
# kernels.sh CASE CSV MARKDOWN [PRECISION]: ncu's time and memory traffic of each kernel in one warmed training step of a case, into
# CSV, and kernels.py's table of them, added to MARKDOWN and printed. NCU names ncu. Clocks and caches stay as they are.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
case=$1 csv=$2 markdown=$3 compute=${4:-bf16} warmup=6
if [ -z "${NCU:-}" ]; then
  echo "skipped: no ncu on this machine; the sections of the steps named ours are the GPU's times"
  exit 77
fi
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
python3 bench/cases.py "$folder" cuda >/dev/null || exit 1
"$NCU" --target-processes all --nvtx --nvtx-include "step/" --clock-control none --cache-control none \
  --metrics gpu__time_duration.sum,dram__bytes.sum --page raw --csv --print-units base --print-kernel-base mangled --log-file "$csv" \
  ./with_libraries.sh bin/bench_training --case "$folder/$case.json" --compute "$compute" --warmup $warmup --steps 1 --range step ||
  { grep '^==' "$csv" | tail -n 5; exit 1; } # what ncu says goes to its log
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)
set -o pipefail
# The roofline's rows are those of bf16, and so is the file that it reads.
json=()
if [ "$compute" = bf16 ]; then json=(--json "$(dirname "$csv")/gpu_kernels.json"); fi
python3 bench/kernels.py "$csv" --case "$case" --step $((warmup + 1)) --gpu "${gpu:-H100}" ${json[@]+"${json[@]}"} | tee -a "$markdown"

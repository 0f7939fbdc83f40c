#!/usr/bin/env bash
# Measures on the GPU at hand, the most informative first; steps.sh has the arguments and what is printed. Beside
# bench.log and bench.md go to ${OUT:-.}: training.json (every training run), training.md (their comparison) and
# kernels_CASE.csv with kernels.md (each kernel of a step, by ncu, beside the roofline). --only '^ours' repeats one part.
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
. ./steps.sh
begin bench "$@"
ncu=$(command -v ncu || ls /usr/local/cuda/bin/ncu /opt/nvidia/nsight-compute/*/ncu 2>/dev/null | tail -n 1)

# attention TYPE HEADS HEAD_DIM
attention() { step "attention_$1_$2x$3" 60 ./with_libraries.sh bin/bench_attention "$@"; }
# training STEP CASE SECONDS COMMAND…: appends what it measures to training.json.
training() {
  local name=$1 case=$2 seconds=$3
  shift 3
  step "${name}_$case" "$seconds" python3 bench/one_case.py --case "$case" --name "$name" --json "$OUT/training.json" -- "$@"
}
# ours NAME CASE PRECISION [VARIABLE=VALUE]… [-- OPTION…]: sections by the GPU's clock.
ours() {
  local name=$1 case=$2 compute=$3 variables=()
  shift 3
  while [ $# -gt 0 ] && [ "$1" != -- ]; do variables+=("$1"); shift; done
  training "$name" "$case" 60 env ${variables[@]+"${variables[@]}"} ./with_libraries.sh bin/bench_training --compute "$compute" --clock device "${@:2}"
}
# program NAME CASE PRECISION [OPTION]…: the real program, with its reading and loading.
program() {
  local name=$1 case=$2 compute=$3
  shift 3
  step "program_${name}_$case" 90 env BERT_HPC_BUILD="$PWD/programs/cuda" BERT_HPC_CPU_BUILD="$PWD/programs/cpu" \
    python3 bench/program_case.py --case "$case" --compute "$compute" "$@"
}
# pytorch NAME CASE SECONDS [OPTION]…
pytorch() {
  local name=$1 case=$2 seconds=$3
  shift 3
  training "$name" "$case" "$seconds" python3 bench/bench_training.py --device cuda --precision bf16 "$@"
}
# kernels CASE [PRECISION]
kernels() {
  local name=kernels_$1${2:+_$2}
  step "$name" 90 env NCU="$ncu" bench/kernels.sh "$1" "$OUT/$name.csv" "$OUT/kernels.md" ${2+"$2"}
}

step nvidia_smi 10 sh -c 'nvidia-smi && echo "= $(nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv,noheader)"'
step fp8 60 ./with_libraries.sh bin/bench_fp8
for columns in 768 1024; do step rows_$columns 30 ./with_libraries.sh bin/bench_rows 5065 $columns; done
step test_ops 90 ./with_libraries.sh bin/test_ops
attention bf16 12 64
for case in base_squad large_squad base_512 large_512 base_short; do ours ours $case bf16; done
for compute in fp32 tf32; do ours ours_$compute base_squad $compute; done
ours ours_fp8 large_squad fp8
ours ours_lora base_squad bf16 -- --trains lora
for case in base_squad base_512; do kernels $case; done
kernels base_squad fp8
program bf16 base_squad bf16
program fp8 large_squad fp8
program bf16 large_squad bf16
program masked_lm base_512 bf16 --task masked_lm
for mode in evaluate predict embed; do program $mode base_squad bf16 --mode $mode --rows 32768; done
program distill base_squad bf16 --mode distill --rows 8192
for case in base_squad large_squad base_512; do pytorch pytorch $case 75; done
for case in base_squad large_squad; do pytorch pytorch_unpadded $case 75 --padding none; done
# What only a GPU can decide, each way; "ours" has the defaults.
for value in kokkos none; do ours "ours_cache_$value" base_squad bf16 BERT_HPC_GPU_CACHE=$value; done
for value in off all; do ours "ours_epilogues_$value" base_squad bf16 -- --epilogues $value; done
for value in bf16 fp32; do ours "ours_gradients_$value" base_squad bf16 -- --weight-gradients $value; done
attention bf16 16 64
attention fp16 16 64
attention bf16 8 128
attention bf16 12 32
pytorch pytorch_compiled base_squad 180 --compile
step comparison 10 python3 bench/one_case.py --table "$OUT/training.json" --markdown "$OUT/training.md"
finish

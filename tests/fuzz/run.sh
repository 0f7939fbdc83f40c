#!/usr/bin/env bash
# run.sh build          builds the fuzzers with clang in $BERT_HPC_BUILD/fuzz (default: the checkout's build/fuzz); without
#                       optimization if they are to run for at most 10 s each
# run.sh NAME           runs fuzz_NAME for $BERT_HPC_FUZZ_SECONDS (60), or $BERT_HPC_FUZZ_RUNS inputs where that is set, from
#                       the seeds in corpus/NAME; what it learns stays in $BERT_HPC_BUILD/fuzz/corpus/NAME
# Inputs follow from the seed BERT_HPC_FUZZ_SEED (1), so that a run can be repeated.
# A finding is printed, kept in $BERT_HPC_BUILD/fuzz/findings, and fails the test.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${BERT_HPC_BUILD:-$here/../../build}/fuzz
. "$here/../../jobs/common.sh"
use_cache_prefix

if [ "${1:-}" = build ]; then
  command -v clang++ >/dev/null || { echo "skipped: there is no clang++"; exit 77; }
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    clang++ -fsanitize=fuzzer,address -x c++ - -o /dev/null 2>/dev/null ||
    { echo "skipped: clang++ has no libFuzzer (libclang-rt-VERSION-dev)"; exit 77; }
  generator=()
  if command -v ninja >/dev/null; then generator=(-G Ninja); fi
  optimization=-O1
  if [ -z "${BERT_HPC_FUZZ_RUNS:-}" ] && [ "${BERT_HPC_FUZZ_SECONDS:-60}" -le 10 ]; then optimization=-O0; fi
  cmake -S "$here" -B "$build" "${generator[@]}" -DBERT_HPC_FUZZ_OPTIMIZATION=$optimization -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=None
  cmake --build "$build" -j "$(core_count)"
  exit
fi

[ $# = 1 ] || fail 2 "usage: tests/fuzz/run.sh build, or the NAME of a fuzz_NAME.cpp beside it"
name=$1
[ -x "$build/fuzz_$name" ] || { echo "skipped: fuzz_$name is not built"; exit 77; }
mkdir -p "$build/corpus/$name" "$build/findings"
seeds=()
if [ -d "$here/corpus/$name" ]; then seeds+=("$here/corpus/$name"); fi
case $name in *_toml) seeds+=("$here/../../input") ;; esac
amount=(-max_total_time="${BERT_HPC_FUZZ_SECONDS:-60}")
if [ -n "${BERT_HPC_FUZZ_RUNS:-}" ]; then amount=(-runs="$BERT_HPC_FUZZ_RUNS"); fi
# Inputs are small, so whatever asks for much memory believed a number that it should have checked.
"$build/fuzz_$name" "${amount[@]}" -seed="${BERT_HPC_FUZZ_SEED:-1}" -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=128 -max_len=4096 -verbosity=1 \
  -print_final_stats=1 -artifact_prefix="$build/findings/$name-" "$build/corpus/$name" ${seeds[@]+"${seeds[@]}"} \
  >"$build/$name.log" 2>&1 || { tail -n 60 "$build/$name.log"; exit 1; }
grep -E "stat::number_of_executed_units|DONE" "$build/$name.log"

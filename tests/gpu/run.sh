#!/usr/bin/env bash
# Runs the tests of this bundle on the GPU at hand; steps.sh has the arguments and what is printed.
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
. ./steps.sh
begin run "$@"

# ours SECONDS NAME: a test program.
ours() { step "$2" "$1" ./with_libraries.sh "bin/$2"; }
# sanitized TOOL: the tests of attention, whose kernels hand data from thread to thread.
sanitized() {
  if command -v compute-sanitizer >/dev/null; then
    step "sanitizer_$1" 90 ./with_libraries.sh compute-sanitizer --tool "$1" --error-exitcode 1 bin/test_ops '*attention*'
  else
    step "sanitizer_$1" 10 sh -c 'echo "skipped: no compute-sanitizer"; exit 77'
  fi
}

step nvidia_smi 10 nvidia-smi
for program in bin/test_*; do
  case $program in
    *_mpi_*) ;;
    */test_ops) ours 150 test_ops ;; # computes each product's reference in fp64 on the host
    *) ours 90 "$(basename "$program")" ;;
  esac
done
step integration_gpu 90 env BERT_HPC_BUILD="$PWD/programs/cuda" BERT_HPC_CPU_BUILD="$PWD/programs/cpu" \
  python3 tests/integration/test_gpu.py
sanitized memcheck
sanitized racecheck
for ranks in 1 2; do
  for program in bin/test_mpi_*; do
    step "$(basename "$program")_on_$ranks" 60 ./with_libraries.sh mpirun -n $ranks "$program"
  done
done
finish

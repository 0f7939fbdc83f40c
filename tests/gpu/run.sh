#!/usr/bin/env bash
# Runs the tests of this bundle on the GPU at hand; steps.sh has the arguments and what is printed. TEST_OPS in the
# environment is a filter of Catch2 for test_ops, whose cases take minutes.
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
. ./steps.sh
begin run "$@"

# ours SECONDS NAME [FILTER]: a test program, or those of its cases that Catch2's filter selects.
ours() { step "$2" "$1" ./with_libraries.sh "bin/$2" "${@:3}"; }
# integration NAME: a script that runs the programs, ranks under this bundle's mpirun.
integration() {
  step "integration_$1" 90 env PATH="$PWD/programs:$PATH" BERT_HPC_BUILD="$PWD/programs/cuda" BERT_HPC_CPU_BUILD="$PWD/programs/cpu" \
    python3 "tests/integration/test_$1.py"
}
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
    */test_ops) ours 150 test_ops ${TEST_OPS:+"$TEST_OPS"} ;; # computes each product's reference in fp64 on the host
    *) ours 90 "$(basename "$program")" ;;
  esac
done
for name in gpu embeddings; do integration $name; done
sanitized memcheck
sanitized racecheck
for ranks in 1 2; do
  for program in bin/test_mpi_*; do
    step "$(basename "$program")_on_$ranks" 60 ./with_libraries.sh mpirun -n $ranks "$program"
  done
done
finish

#!/usr/bin/env bash
# copy_scripts.sh BUNDLE: the scripts of a bundle for GPU machines and the tables that they read.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p "$1"/bench/results "$1"/tests/{bench,integration}
ln -sfn ../../bench/results "$1/tests/bench/results" # where test programs look for tables
cp gpu/{run,bench,steps,with_libraries}.sh "$1/"
cp bench/{cases,one_case,program_case,bench_training,unpadded,kernels,roofline}.py gpu/kernels.sh "$1/bench/"
cp bench/results/launches.json "$1/bench/results/"
cp integration/{program,test_embeddings,test_gpu}.py "$1/tests/integration/"

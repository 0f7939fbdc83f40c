#!/usr/bin/env bash
# Sets up (jobs/setup.sh), builds in ./build and installs: PREFIX/bin, PREFIX/share/bert_hpc/{input,jobs,postprocess},
# PREFIX/modulefiles. The installed tree runs from anywhere. Run again after a change, it rebuilds what changed.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'USAGE'
jobs/build.sh [--prefix DIR] [--tests] [--werror] [--sanitize] [--cuda] [--bundle FILE]

  --prefix DIR  install into DIR (default build/install)
  --tests       also build the tests (tests/run.sh does)
  --werror      warnings are errors, in this build folder from now on
  --sanitize    with AddressSanitizer and UndefinedBehaviorSanitizer, in build-sanitize
  --cuda        for NVIDIA GPUs, in build-cuda: a program that needs one to compute; nvcc (CUDA 12 or newer) and NCCL
                must be there. CUDA_ARCHITECTURES=90 in the environment builds for one kind only (default: 80 and 90)
  --bundle FILE without internet: what is missing is built from the sources that jobs/bundle.sh packed
USAGE
}

build=build prefix='' tests=OFF sanitize=OFF cuda=OFF setup_options=() options=()
while [ $# -gt 0 ]; do
  case $1 in
    --prefix) [ $# -ge 2 ] || fail 2 "--prefix needs a folder"; prefix=$2; shift ;;
    --prefix=*) prefix=${1#--prefix=} ;;
    --tests) tests=ON setup_options+=(--tests) ;;
    --werror) options+=(-DBERT_HPC_WERROR=ON) ;;
    --sanitize) sanitize=ON build=build-sanitize ;;
    --cuda) cuda=ON build=build-cuda setup_options+=(--cuda) ;;
    --bundle) [ $# -ge 2 ] || fail 2 "--bundle needs a file"; setup_options+=(--bundle "$(realpath -m "$2")"); shift ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; fail 2 "unknown option $1" ;;
  esac
  shift
done
[ -n "$bert_hpc_source" ] || fail 2 "jobs/build.sh works from a checkout; this is an installed bert_hpc"
case $prefix in '' | /*) ;; *) prefix=$PWD/$prefix ;; esac

cd "$bert_hpc_source"
./jobs/setup.sh ${setup_options[@]+"${setup_options[@]}"}
use_cache_prefix
if [ $cuda = ON ]; then
  use_cache_cuda
  options+=(-DBERT_HPC_CUDA=ON "-DBERT_HPC_CUDA_ARCHITECTURES=${CUDA_ARCHITECTURES:-80-real;90}")
fi
[ -n "$prefix" ] || prefix=$PWD/$build/install

say "Building in $build"
# Two build folders compile most files alike: ccache need not tell them apart by the folder's name in debug information.
export CCACHE_NOHASHDIR=1
generator=()
if [ ! -f "$build/CMakeCache.txt" ] && have ninja; then generator=(-G Ninja); fi
log=$build/configure.log
mkdir -p "$build"
cmake -S . -B "$build" ${generator[@]+"${generator[@]}"} -DCMAKE_INSTALL_PREFIX="$prefix" -DBERT_HPC_TESTS=$tests \
  -DBERT_HPC_SANITIZE=$sanitize -DBERT_HPC_PYTHON="$(bert_hpc_python)" ${options[@]+"${options[@]}"} >"$log" 2>&1 ||
  { tail -n 40 "$log" >&2; fail 1 "CMake failed; all of its output is in $log (a build folder from elsewhere? delete $build)"; }
cmake --build "$build" -j "$(core_count)"
cmake --install "$build" >"$build/install.log" || { tail -n 5 "$build/install.log" >&2; fail 4 "cannot install into $prefix"; }
say "Installed in $prefix"

#!/usr/bin/env bash
# Installs dependencies (jobs/setup.sh), builds in ./build and installs PREFIX/bin, PREFIX/share/bert_hpc (manuals, input, jobs,
# postprocess) and PREFIX/modulefiles. The installed tree may be moved. A second run rebuilds what changed.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'USAGE'
jobs/build.sh [--prefix DIR] [--build DIR] [--tests] [--werror] [--sanitize] [--cuda] [--configure-only] [--no-install]
              [--bundle FILE]

  --prefix DIR  install into DIR (default: the folder install in the build folder)
  --build DIR   build in DIR (default build, build-cuda or build-sanitize); the checkout is not modified
  --tests       also build the tests (tests/run.sh does)
  --werror      treat warnings as errors, also in later builds in this folder
  --sanitize    with AddressSanitizer and UndefinedBehaviorSanitizer, in build-sanitize
  --cuda        build for NVIDIA GPUs, in build-cuda. The program needs a GPU to compute; the build needs nvcc (CUDA 12
                or newer) and NCCL. CUDA_ARCHITECTURES=90 in the environment builds for one architecture (default: 80, 90)
  --configure-only  stop before compiling
  --no-install  do not use apt or sudo
  --bundle FILE without internet: build missing libraries from the sources that jobs/bundle.sh packed

CMAKE_BUILD_PARALLEL_LEVEL=4 in the environment compiles four files at a time (default: one per usable core, but not more
than one per GiB of memory).
USAGE
}

build='' prefix='' tests=OFF sanitize=OFF cuda=OFF configure_only=0 setup_options=() options=()
while [ $# -gt 0 ]; do
  case $1 in
    --prefix | --build | --bundle) [ $# -ge 2 ] || fail 2 "$1 needs a value"; set -- "$1=$2" "${@:3}"; continue ;;
    --prefix= | --build= | --bundle=) fail 2 "${1%=} needs a value" ;;
    --prefix=*) prefix=$(full_path "${1#*=}") ;;
    --build=*) build=$(full_path "${1#*=}") ;;
    --bundle=*) setup_options+=(--bundle "$(full_path "${1#*=}")") ;;
    --tests) tests=ON setup_options+=(--tests) ;;
    --werror) options+=(-DBERT_HPC_WERROR=ON) ;;
    --sanitize) sanitize=ON ;;
    --cuda) cuda=ON setup_options+=(--cuda) ;;
    --configure-only) configure_only=1 ;;
    --no-install) setup_options+=(--no-install) ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; fail 2 "unknown option $1" ;;
  esac
  shift
done
[ -n "$bert_hpc_source" ] || fail 2 "jobs/build.sh works from a checkout; this is an installed bert_hpc"
cd "$bert_hpc_source"
if [ -z "$build" ]; then
  build=build
  if [ $sanitize = ON ]; then build='build-sanitize'; fi
  if [ $cuda = ON ]; then build='build-cuda'; fi
fi
prefix=${prefix:-$(full_path "$build/install")}

# CPU and GPU programs have the same name: neither may replace the other silently.
if [ -f "$prefix/bin/bert_hpc" ]; then
  installed=OFF
  if grep -q 'libcudart\.so' "$prefix/bin/bert_hpc"; then installed=ON; fi
  if [ $installed != $cuda ]; then
    fail 2 "$prefix has a bert_hpc for $([ $installed = ON ] && echo GPUs || echo CPUs): install this one under another --prefix, or remove $prefix/bin/bert_hpc"
  fi
fi

./jobs/setup.sh ${setup_options[@]+"${setup_options[@]}"}
use_cache_prefix
if [ $cuda = ON ]; then
  use_cache_cuda
  options+=(-DBERT_HPC_CUDA=ON "-DBERT_HPC_CUDA_ARCHITECTURES=${CUDA_ARCHITECTURES:-80-real;90}")
fi

say "Building in $build"
mkdir -p "$build" || fail 4 "cannot write to $build; --build names another folder"
# CMake caches what it finds. If compiler, MPI or modules changed since the last build, the cache is removed.
surroundings() {
  local name path
  for name in "CC ${CC:-cc}" "CXX ${CXX:-c++}" "mpicc mpicc" "nvcc ${CUDACXX:-nvcc}" "h5pcc h5pcc" "h5cc h5cc"; do
    read -r name path _ <<<"$name"
    path=$(command -v "$path" || true)
    printf '%s=%s\n' "$name" "${path:+$(realpath "$path")}"
  done
  printf 'CXX=%s\n' "$(${CXX:-c++} --version 2>/dev/null | sed -n 1p)"
  # The module of bert_hpc itself is irrelevant.
  env | sed -E '/^(PYENV|BERT_HPC)_ROOT=/d; /^LOADEDMODULES=/{s/([=:])bert_hpc[^:]*(:|$)/\1/; s/:$//}' | LC_ALL=C sort |
    grep -E '^(((C|CXX|CUDA|LD)FLAGS|CPATH|LIBRARY_PATH|CMAKE_PREFIX_PATH|LOADEDMODULES|CONDA_PREFIX)=.|[A-Za-z0-9_]+_ROOT=/|(Kokkos|HDF5|dnnl|tomlplusplus|nlohmann_json|Catch2)_DIR=)' || true
}
surroundings >"$build/surroundings.new"
if [ -f "$build/CMakeCache.txt" ] && [ -f "$build/surroundings" ] && ! cmp -s "$build/surroundings" "$build/surroundings.new"; then
  say "Reconfiguring, because these changed: $(sort "$build/surroundings" "$build/surroundings.new" | uniq -u | sed 's/=.*//' | sort -u | paste -sd ' ')"
  # Keep the chosen options, drop found libraries.
  mapfile -t chosen < <(grep -E '^(BERT_HPC_[A-Z_]*|CMAKE_BUILD_TYPE):(BOOL|STRING)=' "$build/CMakeCache.txt")
  options=(${chosen[@]+"${chosen[@]/#/-D}"} ${options[@]+"${options[@]}"})
  rm -rf "$build/CMakeCache.txt" "$build/CMakeFiles"
fi
mv "$build/surroundings.new" "$build/surroundings"

share_compiler_cache
generator=()
if [ ! -f "$build/CMakeCache.txt" ] && have ninja; then generator=(-G Ninja); fi
log=$build/configure.log
cmake -S . -B "$build" ${generator[@]+"${generator[@]}"} -DCMAKE_INSTALL_PREFIX="$prefix" -DBERT_HPC_TESTS=$tests \
  -DBERT_HPC_SANITIZE=$sanitize -DBERT_HPC_PYTHON="$(bert_hpc_python)" ${options[@]+"${options[@]}"} >"$log" 2>&1 ||
  { tail -n 40 "$log" >&2; fail 1 "CMake failed; its full output is in $log (if the build folder was copied from elsewhere, delete $build)"; }
if [ $configure_only = 1 ]; then exit; fi
cmake --build "$build" -j "$(build_jobs)"
# Folders follow the umask, files do not: make the installation readable for all users, independent of the umask.
umask "$(printf '%03o' $((0$(umask) & 0222)))"
cmake --install "$build" >"$build/install.log" || { tail -n 5 "$build/install.log" >&2; fail 4 "cannot install into $prefix"; }
say "Installed in $prefix"

#!/usr/bin/env bash
# Packs the CUDA build's tests and benchmarks into a folder that runs on a machine with a GPU where nothing of this is
# installed: our programs, those of a CPU build for comparison, Open MPI and HDF5. CUDA's libraries and NCCL are those of
# that machine, found through LD_LIBRARY_PATH, in /usr/local/cuda or among the packages of its python3.
#   tests/gpu.sh [FOLDER]      builds in build-bundle, packs into FOLDER (default build-bundle/bert_hpc_gpu) and FOLDER.tar.xz,
#                              prints its size and fails if it is above 48 MiB
#   FOLDER/bench.sh            measures: attention, training steps, each kernel of a step, the same steps by PyTorch
#   FOLDER/run.sh              runs every test
# Both end within --seconds (300) and leave their results in ${OUT:-.}; tests/gpu/steps.sh has the other arguments.
# CUDA_ARCHITECTURES in the environment: as for jobs/build.sh, but 90-real by default: code for one kind of GPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. jobs/common.sh

most_bytes=$((48 << 20))
cuda=$PWD/build-bundle/cuda cpu=$PWD/build-bundle/cpu
bundle=$(full_path "${1:-build-bundle/bert_hpc_gpu}")
./jobs/setup.sh
./jobs/setup.sh --tests --cuda
use_cache_prefix

# build FOLDER TARGETS OPTION…: neither lines of source in kernels nor libraries that would have to travel.
build() {
  local folder=$1 targets=$2 generator=()
  shift 2
  mkdir -p "$folder"
  if [ ! -f "$folder/CMakeCache.txt" ] && have ninja; then generator=(-G Ninja); fi
  cmake -S . -B "$folder" ${generator[@]+"${generator[@]}"} -DBERT_HPC_PYTHON="$(bert_hpc_python)" "$@" >"$folder/configure.log" 2>&1 ||
    { tail -n 40 "$folder/configure.log" >&2; fail 1 "CMake failed; its full output is in $folder/configure.log"; }
  # shellcheck disable=SC2086
  CCACHE_NOHASHDIR=1 cmake --build "$folder" -j "$(build_jobs)" --target $targets >"$folder/build.log" 2>&1 ||
    { tail -n 40 "$folder/build.log" >&2; fail 1 "the programs do not build; see $folder/build.log"; }
}
say "Building the programs for comparison in $cpu"
build "$cpu" "bert_hpc bert_hpc_prep" -DBERT_HPC_TESTS=OFF -DBERT_HPC_CPU_LIBRARIES=OFF
say "Building for GPUs in $cuda"
(use_cache_cuda && build "$cuda" "all bench_attention bench_fp8 bench_rows bench_training" -DBERT_HPC_TESTS=ON -DBERT_HPC_CUDA=ON \
  -DBERT_HPC_CUDA_LINES=OFF -DBERT_HPC_CUDA_ARCHITECTURES="${CUDA_ARCHITECTURES:-90-real}")

say "Packing $bundle"
rm -rf "$bundle" "$bundle.tar.xz"
mkdir -p "$bundle"/{bin,cpu,lib,tests,programs/cuda,programs/cpu}
for program in "$cuda"/bert_hpc "$cuda"/bert_hpc_prep "$cuda"/tests/test_* "$cuda"/tests/bench_{attention,fp8,rows,training}; do
  if [ -f "$program" ] && [ -x "$program" ]; then strip -o "$bundle/bin/${program##*/}" "$program"; fi
done
for program in bert_hpc bert_hpc_prep; do
  strip -o "$bundle/cpu/$program" "$cpu/$program"
  # For scripts, which name neither libraries nor folders.
  for kind in cuda/bin cpu/cpu; do
    printf '#!/bin/sh\nexec "%s/with_libraries.sh" "%s/%s/%s" "$@"\n' '${0%/programs/*}' '${0%/programs/*}' "${kind#*/}" $program \
      >"$bundle/programs/${kind%/*}/$program"
  done
done
chmod +x "$bundle"/programs/*/*
cp -r tests/golden "$bundle/tests/"
rm -rf "$bundle"/tests/golden/{__pycache__,*.cpp,*.py}
tests/gpu/copy_scripts.sh "$bundle"

# What the programs load from here, but for the C library and what comes with CUDA, NCCL and the driver.
needed() {
  for file in "$@"; do ldd "$file" 2>/dev/null || true; done | sed -n 's/.* => \(\/[^ ]*\).*/\1/p' | sort -u |
    grep -Ev '/(libc|libm|libdl|librt|libpthread|libresolv|ld-linux[^/]*)\.so|/lib(cudart|cublas|cublasLt|nccl|cuda|nvidia)[^/]*\.so' || true
}
# HDF5 may read from S3 by libcurl, which brings 25 libraries. No program here does: a library of that name, whose
# functions end the program, serves instead of it.
stand_in_for_curl() {
  local functions version
  functions=$(nm -D --undefined-only "$1" | sed -n 's/.* \(curl_[a-z_]*\)@.*/\1/p')
  version=$(nm -D --undefined-only "$1" | sed -n 's/.* curl_[a-z_]*@\(.*\)/\1/p' | sort -u)
  [ -n "$functions" ] || return 0
  { echo '#include <stdlib.h>'; for name in $functions; do echo "void $name(void) { abort(); }"; done; } >"$cuda/curl.c"
  echo "$version { *; };" >"$cuda/curl.map"
  "${CC:-cc}" -shared -fPIC -O1 -s -Wl,-soname,libcurl.so.4 -Wl,--version-script="$cuda/curl.map" -o "$bundle/lib/libcurl.so.4" "$cuda/curl.c"
}
hdf5=$(needed "$cuda/bert_hpc" | sed -n '/\/libhdf5[^/]*\.so/{p;q}' || true)
if [ -n "$hdf5" ]; then stand_in_for_curl "$hdf5"; fi

mpirun=$(command -v mpirun || true)
# One host needs neither network cards' plugins nor those for parallel files and OpenSHMEM, which would bring libraries.
plugins=$(find /usr/lib /usr/local/lib -path '*openmpi*' -name 'mca_*.so' 2>/dev/null |
  grep -vE 'ucx|ofi|psm|openib|usnic|portals|_ud_|uct|netlink|/mca_(fs|io|fbtl|fcoll|sharedfp|osc|mtl|atomic|memheap|scoll|spml|sshmem)_|plm_(slurm|tm)|ras_(slurm|tm)' || true)
programs=("$bundle"/{bin,cpu}/*)
if [ -n "$mpirun" ]; then
  printf '#!/bin/sh\nexec "%s/with_libraries.sh" mpirun "$@"\n' '${0%/programs/*}' >"$bundle/programs/mpirun"
  chmod +x "$bundle/programs/mpirun"
  cp -L "$(readlink -f "$mpirun")" "$bundle/bin/mpirun"
  have orted && cp -L "$(command -v orted)" "$bundle/bin/orted"
  programs+=("$bundle/bin/mpirun" "$bundle/bin/orted")
  mkdir -p "$bundle/lib/openmpi" "$bundle/share"
  for plugin in $plugins; do strip -o "$bundle/lib/openmpi/${plugin##*/}" "$plugin"; done
  if [ -d /usr/share/openmpi ]; then cp -r /usr/share/openmpi "$bundle/share/"; fi
fi
# With the stand-in first, what only libcurl needs is not found.
for library in $(LD_LIBRARY_PATH=$bundle/lib needed "${programs[@]}" $plugins); do
  [ "${library%/*}" = "$bundle/lib" ] || strip -o "$bundle/lib/${library##*/}" "$(readlink -f "$library")"
done

# All programs hold the same kernels: a dictionary that spans them keeps one copy.
tar -C "$(dirname "$bundle")" --sort=name --owner=0 --group=0 -cf - "$(basename "$bundle")" | xz --lzma2=preset=6,dict=256MiB >"$bundle.tar.xz"
bytes=$(stat -c %s "$bundle.tar.xz")
note "$bundle: $(du -sm "$bundle" | cut -f1) MiB; $bundle.tar.xz: $bytes bytes, $((bytes >> 20)).$((bytes * 10 / 1048576 % 10)) MiB"
[ "$bytes" -le $most_bytes ] || fail 1 "$bundle.tar.xz is above 48 MiB"

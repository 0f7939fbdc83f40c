#!/usr/bin/env bash
# Provides the dependencies of bert_hpc. Libraries that CMake finds (system, modules, Spack, CMAKE_PREFIX_PATH) are used.
# Missing ones come from apt on Debian and Ubuntu, if the user may install packages; Kokkos and Catch2, which may be absent
# there in a usable version, are built or unpacked into a cache outside the source tree. Elsewhere the script lists what is
# missing and how to provide it. A second run changes nothing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$bert_hpc_jobs/archive.sh"
. "$bert_hpc_jobs/bundled.sh"
. "$bert_hpc_jobs/test_tools.sh"

usage() {
  cat <<'USAGE'
jobs/setup.sh [--cuda] [--studies] [--tests] [--reference] [--check] [--no-install] [--bundle FILE [--from-bundle NAMES]]

  --cuda       for NVIDIA GPUs: Kokkos with CUDA, and NCCL; needs the CUDA toolkit (nvcc)
  --studies    also scikit-learn and wordcloud, for the reports of jobs/study-*.sh
  --tests      also what the tests need: those of --studies, Catch2 3, clang-format, headers of Kokkos 5 and oneDNN 3, cblas,
               Lmod and environment-modules (unpacked into the cache), in containers Slurm
  --reference  also PyTorch and Transformers, in a Python environment of their own (about 1.5 GB): they regenerate the
               reference numbers of the tests, and benchmarks compare with them
  --bundle FILE        without network: build missing libraries from the sources that jobs/bundle.sh packed (a tar file, or
                       the folder in it)
  --from-bundle NAMES  build these from the bundle even if the system has them; in quotes, from: MPI HDF5 ZLIB zstd Kokkos toml++
                       nlohmann_json utf8proc oneDNN Catch2
  --no-install do not use apt or sudo; build or unpack into the cache what is possible
  --check      only report; install, fetch and build nothing (exit 2 if something required is missing)

The cache is $BERT_HPC_CACHE, else $XDG_CACHE_HOME/bert_hpc, else ~/.cache/bert_hpc.
USAGE
}

with_cuda=0 with_studies=0 with_tests=0 with_reference=0 only_check=0 no_install=0 bundle='' forced=''
while [ $# -gt 0 ]; do
  case $1 in
    --bundle) [ -n "${2:-}" ] || fail 2 "--bundle needs a file"; bundle=$2; shift ;;
    --from-bundle) [ -n "${2:-}" ] || fail 2 "--from-bundle needs names"; forced=$2; shift ;;
    --cuda) with_cuda=1 ;;
    --studies) with_studies=1 ;;
    --tests) with_studies=1 with_tests=1 ;;
    --reference) with_reference=1 ;;
    --check) only_check=1 ;;
    --no-install) no_install=1 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; fail 2 "unknown option $1" ;;
  esac
  shift
done
[ -z "$forced" ] || [ -n "$bundle" ] || fail 2 "--from-bundle needs --bundle FILE"
[ -n "$bert_hpc_source" ] || fail 2 "jobs/setup.sh works from a checkout; an installed bert_hpc needs no set-up"

# Configure scripts and compiler wrappers run from the scratch folder, and /tmp may forbid execution.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ "$only_check" = 0 ] && ! runs_programs "$scratch"; then
  note "programs cannot run in $(dirname "$scratch") (noexec): using the cache instead"
  rm -rf "$scratch"
  mkdir -p "$bert_hpc_cache" && scratch=$(mktemp -d "$bert_hpc_cache/scratch.XXXXXX") ||
    fail 4 "cannot write to the cache $bert_hpc_cache; set BERT_HPC_CACHE to a writable folder"
fi
if [ -n "$bundle" ]; then open_bundle "$bundle"; fi

# --- apt: only if this system has it and the user may install.
apt_updated=0
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif [ -t 0 ]; then sudo "$@"
  else sudo -n "$@"
  fi
}
may_install() {
  [ "$only_check" = 0 ] && [ "$no_install" = 0 ] && [ -z "$bundle" ] && have apt-get && have dpkg-query || return 1
  [ "$(id -u)" = 0 ] && return 0
  have sudo && { [ -t 0 ] || sudo -n true 2>/dev/null; }
}
apt_update() {
  [ "$apt_updated" = 1 ] && return 0
  apt_updated=1
  note "apt-get update"
  # An unreachable third-party package list is not an error: apt-get install reports what matters.
  as_root apt-get -o DPkg::Lock::Timeout=600 update >"$scratch/apt.log" 2>&1 || true
}
apt_install() {
  if [ "$(id -u)" != 0 ]; then note "about to install these packages with sudo (--no-install avoids this): $*"; fi
  apt_update
  note "apt-get install $*"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "$@" \
    >"$scratch/apt.log" 2>&1 && return 0
  tail -n 5 "$scratch/apt.log" >&2
  return 1
}
apt_offers() { # apt_offers PACKAGE VERSION: does apt have PACKAGE in at least VERSION?
  local candidate
  candidate=$(apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: *//p')
  [ -n "$candidate" ] && [ "$candidate" != "(none)" ] && dpkg --compare-versions "$candidate" ge "$2"
}

# --- Kokkos and Catch2.
build_kokkos() {
  local spaces="OpenMP, Serial" prefix=$bert_hpc_cache/prefix duration="half a minute"
  if [ "$with_cuda" = 1 ]; then spaces="CUDA, $spaces" prefix=$bert_hpc_cache/prefix-cuda duration="two minutes"; fi
  say "Kokkos ($spaces): building it into the cache (no installed one was found; $duration)"
  local source=$scratch/kokkos build=$scratch/kokkos-build standard=17 version log=$scratch/kokkos.log options=()
  unpack_kokkos "$source" || return 1
  version=$(kokkos_version "$source")
  [ "${version%%.*}" -lt 5 ] 2>/dev/null || standard=20
  if [ "$with_cuda" = 1 ]; then
    adapt_kokkos_to_cuda "$source" "$version" || return 1
    # Its few kernels as machine code for 8.0 (A100) and as PTX, which the driver compiles once for newer devices.
    options=(-DKokkos_ENABLE_CUDA=ON -DKokkos_ENABLE_CUDA_LAMBDA=ON -DKokkos_ARCH_AMPERE80=ON
      -DCMAKE_CXX_COMPILER="$source/bin/nvcc_wrapper")
  fi
  note "compiling Kokkos $version"
  # Kokkos 3.4 lacks an include of <cstdint>, which other headers of GCC 13 no longer provide.
  { NVCC_WRAPPER_DEFAULT_COMPILER=$(command -v c++) cmake -S "$source" -B "$build" -DCMAKE_BUILD_TYPE=Release \
      -DCMAKE_CXX_FLAGS="-include cstdint" \
      -DKokkos_ENABLE_OPENMP=ON -DKokkos_ENABLE_SERIAL=ON -DCMAKE_CXX_STANDARD=$standard \
      -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_INSTALL_PREFIX="$prefix" \
      ${options[@]+"${options[@]}"} &&
    cmake --build "$build" -j "$(build_jobs)" && cmake --install "$build"; } >"$log" 2>&1 || { tail -n 20 "$log" >&2; return 1; }
  if [ "$with_cuda" = 1 ]; then echo "$cuda_adaptation" >"$prefix/adaptation"; fi
}

# Kokkos 3.4.01 is older than CUDA 12 and 13: nvcc no longer supports its wrapper's default architecture, conversions to
# half precision have other attributes, and from 13 on cudaMemPrefetchAsync takes a location and flags. Kokkos supports
# them itself from 4.7.01 on. It also ends the program if its kernels were compiled for another major capability than
# the device's, although PTX supports newer ones; with Kokkos 4's comparison it rejects only older ones.
cuda_adaptation=2 # version of our changes to the Kokkos in the cache: an earlier one is rebuilt
adapt_kokkos_to_cuda() { # adapt_kokkos_to_cuda SOURCE VERSION
  case $2 in 3.4.*) ;; *) return 0 ;; esac
  local instance=$1/core/src/Cuda/Kokkos_Cuda_Instance.cpp
  sed -i 's/if (compiled_major != cudaProp\.major || compiled_minor > cudaProp\.minor)/if (compiled_major > cudaProp.major || (compiled_major == cudaProp.major \&\& compiled_minor > cudaProp.minor))/' "$instance"
  grep -q 'if (compiled_major > cudaProp.major' "$instance" || { note "Kokkos $2 compares capabilities in an unknown way"; return 1; }
  sed -i 's/^default_arch="sm_35"/default_arch="sm_80"/' "$1/bin/nvcc_wrapper"
  sed -i 's/^#if (CUDA_VERSION < 11100)$/#if 1/' "$1/core/src/Cuda/Kokkos_Cuda_Half.hpp"
  [ "$(nvcc --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')" -ge 13 ] || return 0
  sed -i 's/\(cudaMemPrefetchAsync(ptr, bytes,\) space.cuda_device(),/\1 cudaMemLocation{cudaMemLocationTypeDevice, space.cuda_device()}, 0,/' \
    "$1/core/src/Cuda/Kokkos_CudaSpace.cpp"
}
get_catch2() {
  have apt-get || return 1
  say "Catch2 3: unpacking it into the cache (the tests use it; no installed one was found)"
  if may_install && apt_offers libcatch2-dev 3; then apt_install libcatch2-dev && return 0; fi
  if may_install && apt_offers catch2 3; then apt_install catch2 && return 0; fi
  fetch_deb libcatch2-dev "$(codename)-backports" "$bert_hpc_cache/prefix"
}
get_kokkos() {
  have apt-get || return 1
  if [ "$with_cuda" = 0 ] && may_install && apt_offers libkokkos-dev 3.4.01; then apt_install libkokkos-dev && return 0; fi
  build_kokkos
}

# --- Tools.
need_tools() {
  local missing=() tool line
  if [ "$with_cuda" = 1 ] && ! have nvcc; then
    fail 2 "no nvcc: provide CUDA 12 or newer, e.g. 'module load cuda' or PATH=/usr/local/cuda/bin:\$PATH; without --cuda bert_hpc is built for CPUs"
  fi
  while IFS='|' read -r tool package purpose; do
    have "$tool" || missing+=("$tool|$package|$purpose")
  done <<'TOOLS'
c++|g++|the compiler
cmake|cmake|configures the build
make|make|builds Kokkos
git|git|names the source revision
TOOLS
  if ! have ninja; then missing+=("ninja|ninja-build|builds and rebuilds quickly"); fi
  if ! have ccache; then missing+=("ccache|ccache|remembers compiled files (optional)"); fi
  if [ "$with_tests" = 1 ] && ! have clang-format; then missing+=("clang-format|clang-format|the style test (optional)"); fi
  [ ${#missing[@]} -gt 0 ] || return 0
  local packages=()
  for line in "${missing[@]}"; do
    IFS='|' read -r tool package purpose <<<"$line"
    note "missing: $tool - $purpose"
    packages+=("$package")
  done
  if may_install; then
    say "Installing tools with apt: ${packages[*]}"
    apt_install "${packages[@]}" || true
  fi
  have c++ || have g++ || fail 2 "no C++ compiler: provide one with C++20 (g++ 11 or newer), e.g. 'apt-get install g++' or 'module load gcc'"
  have cmake || fail 2 "no cmake: provide 3.22 or newer, e.g. 'apt-get install cmake', 'pip install cmake' or 'module load cmake'"
  have ninja || have make || fail 2 "neither ninja nor make: provide one, e.g. 'apt-get install ninja-build'"
}

# --- Libraries: CMakeLists.txt lists the requirements and prints a line NAME|required|purpose|apt packages|Spack specs
# for each missing one.
probe() {
  rm -rf "$scratch/probe"
  if [ "$with_cuda" = 1 ]; then use_cache_cuda; fi
  cmake -S "$bert_hpc_source" -B "$scratch/probe" -DBERT_HPC_PROBE=ON -DBERT_HPC_TESTS="$with_tests" \
    -DBERT_HPC_CUDA="$with_cuda" \
    >"$scratch/probe.log" 2>&1 || { tail -n 30 "$scratch/probe.log" >&2; fail 1 "CMake could not look for the libraries (above)"; }
  sed -n 's/^-- missing: //p' "$scratch/probe.log" >"$scratch/missing"
}
could_not() {
  note "could not get $1$(have apt-get || echo ': this system has no apt')"
  sed -n 's/^[EW]: /     apt: /p' "$scratch/apt.log" 2>/dev/null | tail -n 2 || true
}
need_libraries() {
  local name kind purpose apt spack packages=()
  probe
  [ -s "$scratch/missing" ] || [ -n "$forced" ] || return 0
  while IFS='|' read -r name kind purpose apt spack; do
    note "missing: $name ($kind) - $purpose"
    case $name in
      Kokkos | Catch2 | NCCL | CUDA*) ;;
      Arrow) if may_install && apt_offers libparquet-dev 10; then for package in $apt; do packages+=("$package"); done; fi ;;
      *) for package in $apt; do packages+=("$package"); done ;;
    esac
  done <"$scratch/missing"
  if [ -n "$bundle" ] && [ "$only_check" = 0 ]; then build_missing_from_bundle; fi
  if [ ${#packages[@]} -gt 0 ] && may_install; then
    say "Installing libraries with apt: ${packages[*]}"
    apt_install "${packages[@]}" || true
  fi
  if grep -q '^Catch2|' "$scratch/missing" && [ "$only_check" = 0 ] && [ -z "$bundle" ]; then get_catch2 || could_not "Catch2 3"; fi
  if grep -q '^Kokkos|' "$scratch/missing" && [ "$only_check" = 0 ] && [ -z "$bundle" ]; then get_kokkos || could_not Kokkos; fi
  probe
  grep -q '|required|' "$scratch/missing" || return 0
  {
    if [ -n "$bundle" ]; then
      printf 'error: these are missing, and the bundle does not have them or they failed to build:\n'
    else
      printf 'error: these are missing, and this script cannot install them (that needs apt, and root or sudo):\n'
    fi
    while IFS='|' read -r name kind purpose apt spack; do
      [ "$kind" = required ] || continue
      printf '  %-14s %s\n%17sDebian/Ubuntu: %s   Spack: %s\n' "$name" "$purpose" "" "$apt" "$spack"
    done <"$scratch/missing"
    printf 'Provide them in one of these ways, then run this again:\n'
    printf '  modules  module load gcc openmpi hdf5 kokkos ...   (with the names of your site; see "module avail")\n'
    printf '  Spack    spack install SPECS && spack load SPECS     (the specs above)\n'
    # shellcheck disable=SC2016
    printf '  a folder export CMAKE_PREFIX_PATH=/where/it/is:$CMAKE_PREFIX_PATH\n'
    printf '  an admin apt-get install PACKAGES                    (the packages above)\n'
    printf '  a bundle jobs/bundle.sh packs all sources on a machine with internet; here: --bundle FILE\n'
  } >&2
  exit 2
}

# --- Python for postprocess/ and the tests of our files.
make_environment() { # make_environment FOLDER PACKAGE...
  local folder=$1
  shift
  have python3 || { may_install && apt_install python3; } || return 1
  rm -rf "$folder"
  if ! python3 -m venv "$folder" >"$scratch/venv.log" 2>&1; then
    may_install && apt_install python3-venv || return 1
    rm -rf "$folder"
    python3 -m venv "$folder" >"$scratch/venv.log" 2>&1 || return 1
  fi
  "$folder/bin/python" -m pip install --quiet --retries 1 "$@" >"$scratch/pip.log" 2>&1 || { tail -n 3 "$scratch/pip.log" >&2; rm -rf "$folder"; return 1; }
}
has_modules() { # has_modules PYTHON MODULE...
  local python=$1
  shift
  "$python" -c 'import importlib.util, sys; sys.exit(any(importlib.util.find_spec(m) is None for m in sys.argv[1:]))' "$@" 2>/dev/null
}
need_python() {
  local python
  python=$(bert_hpc_python)
  if [ -z "$python" ] || ! has_modules "$python" h5py numpy matplotlib; then
    if [ "$only_check" = 1 ] || [ -n "$bundle" ]; then
      note "missing: h5py, numpy, matplotlib (optional) - pictures and tables; set BERT_HPC_PYTHON to a Python that has them"
      return 0
    fi
    say "Python: making an environment in the cache (h5py, numpy, matplotlib: for tables and pictures)"
    make_environment "$bert_hpc_cache/venv" h5py numpy matplotlib ||
      { may_install && apt_install python3-h5py python3-numpy python3-matplotlib; } ||
      note "cannot make the environment: training works without it; for pictures set BERT_HPC_PYTHON to a Python with h5py, numpy, matplotlib"
  fi
  python=$(bert_hpc_python)
  if [ "$with_studies" = 1 ] && ! has_modules "$python" sklearn wordcloud; then
    if [ "$only_check" = 1 ] || [ -n "$bundle" ] || [ "$python" != "$bert_hpc_cache/venv/bin/python" ]; then
      note "missing: scikit-learn, wordcloud (optional) - some rows and pictures of studies; install them for $python"
    else
      say "Python: adding scikit-learn and wordcloud to the environment in the cache"
      "$python" -m pip install --quiet --retries 1 scikit-learn wordcloud >"$scratch/pip.log" 2>&1 ||
        note "cannot install them: studies work without, with fewer rows and pictures"
    fi
  fi
  [ "$with_reference" = 1 ] || return 0
  python=${BERT_HPC_REFERENCE_PYTHON:-$bert_hpc_cache/venv-reference/bin/python}
  if ! has_modules "$python" torch transformers safetensors sklearn h5py; then
    say "Python: making the reference environment in the cache (torch, transformers: golden numbers, benchmarks)"
    make_environment "$bert_hpc_cache/venv-reference" torch transformers safetensors scikit-learn h5py numpy ||
      fail 1 "cannot make the reference environment; set BERT_HPC_REFERENCE_PYTHON to a Python that has torch, transformers, safetensors, scikit-learn and h5py"
  fi
}

# --- Versions found, for defect reports. The file is written only if they change.
record_versions() {
  mkdir -p "$bert_hpc_cache"
  {
    sed -n 's/^-- found: //p' "$scratch/probe.log"
    cmake --version | sed -n 1p
    c++ --version | sed -n 1p
    for environment in venv venv-reference; do
      if [ -x "$bert_hpc_cache/$environment/bin/python" ]; then
        "$bert_hpc_cache/$environment/bin/python" -c '
import importlib.metadata as m, sys
print(sys.argv[1] + ": " + " ".join(sorted(d.metadata["Name"] + "==" + d.version for d in m.distributions())))' $environment 2>/dev/null ||
          echo "$environment: packages unknown (its Python is older than 3.8)"
      fi
    done
  } >"$scratch/versions"
  cmp -s "$scratch/versions" "$bert_hpc_cache/versions.txt" || cp "$scratch/versions" "$bert_hpc_cache/versions.txt"
}

if [ "$only_check" = 0 ]; then
  mkdir -p "$bert_hpc_cache" || fail 4 "cannot write to the cache $bert_hpc_cache; set BERT_HPC_CACHE to a writable folder"
  exec 9>"$bert_hpc_cache/lock"
  locked=0
  if have flock; then flock -n 9 || locked=$?; fi
  if [ "$locked" = 1 ]; then
    note "another set-up uses $bert_hpc_cache: waiting for it"
    flock 9
  elif [ "$locked" != 0 ]; then
    note "the file system of $bert_hpc_cache does not support locks: run only one set-up at a time"
  fi
fi
use_cache_prefix
need_tools
if [ "$with_cuda" = 1 ] && [ "$only_check" = 0 ] && [ -d "$bert_hpc_cache/prefix-cuda" ] &&
  [ "$(cat "$bert_hpc_cache/prefix-cuda/adaptation" 2>/dev/null)" != "$cuda_adaptation" ]; then
  note "the Kokkos for GPUs in the cache comes from an earlier version of this script: rebuilding it"
  rm -rf "$bert_hpc_cache/prefix-cuda"
fi
need_libraries
if [ "$with_tests" = 1 ] && [ "$only_check" = 0 ] && [ -z "$bundle" ]; then
  get_newest_headers "Kokkos 5" libkokkos-dev kokkos5
  get_newest_headers "oneDNN 3" libdnnl-dev onednn3
  get_slurm
  get_module_tools
fi
need_python
[ "$only_check" = 1 ] || record_versions
if [ "$only_check" = 1 ]; then say "Nothing is missing."; else say "Set up. Versions: $bert_hpc_cache/versions.txt"; fi

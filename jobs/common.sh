# shellcheck shell=bash disable=SC2034,SC2088
# Sourced by the scripts of jobs/ and tests/: paths, messages, and an environment for MPI programs on one machine. Defines
# functions and variables only; changes nothing on disk.

# A checkout has jobs/ at its top; an installed tree has PREFIX/share/bert_hpc/jobs and PREFIX/bin.
bert_hpc_jobs=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bert_hpc_share=$(dirname "$bert_hpc_jobs")
if [ -f "$bert_hpc_share/CMakeLists.txt" ]; then
  bert_hpc_source=$bert_hpc_share
else
  bert_hpc_source=
fi

# Holds everything fetched or built for bert_hpc, outside the source tree; it may be deleted at any time. Programs in
# the cache are run, so it is never below /tmp, where other users could put theirs. Without HOME, ~ is the user's
# entry in the system's database.
bert_hpc_home=${HOME:-$(unset HOME && echo ~)}
bert_hpc_cache=${BERT_HPC_CACHE:-${XDG_CACHE_HOME:-$bert_hpc_home/.cache}/bert_hpc}

say() { printf '== %s\n' "$*"; }
note() { printf '   %s\n' "$*"; }
fail() {
  local status=$1
  shift
  printf 'error: %s\n' "$*" >&2
  exit "$status"
}
# full_path NAME: absolute path, also for "~/…", which shells do not expand after "--option=".
full_path() {
  case $1 in
    '~' | '~/'*) printf '%s\n' "$bert_hpc_home${1#\~}" ;;
    /*) printf '%s\n' "$1" ;;
    *) printf '%s\n' "$PWD/$1" ;;
  esac
}
# runs_programs FOLDER: true if programs in FOLDER can be executed.
runs_programs() { printf '#!/bin/sh\n' >"$1/try" && chmod +x "$1/try" && "$1/try" 2>/dev/null; }
have() { command -v "$1" >/dev/null 2>&1; }
# cgroup_files CONTROLLER NAME NAME1: the files NAME (version 2) and NAME1 (version 1) of the cgroups around this process.
bert_hpc_cgroups=/sys/fs/cgroup bert_hpc_own_cgroups=/proc/self/cgroup bert_hpc_meminfo=/proc/meminfo
cgroup_files() {
  local controllers path file
  [ -r "$bert_hpc_own_cgroups" ] || return 0
  while IFS=: read -r _ controllers path; do
    case ,$controllers, in
      ,,) file=$bert_hpc_cgroups$path/$2 ;;
      *",$1,"*) file=$bert_hpc_cgroups/$1$path/$3 ;;
      *) continue ;;
    esac
    while :; do
      if [ -r "$file" ]; then printf '%s\n' "$file"; fi
      case $path in '' | /) break ;; esac
      path=${path%/*} file=${file%/*/*}/${file##*/}
    done
  done <"$bert_hpc_own_cgroups"
}
# Usable cores: by affinity and by the cgroup's CPU quota. Without the unset, nproc prints OMP_NUM_THREADS, which is
# irrelevant for compiling.
core_count() {
  local cores file quota period
  cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
  while read -r file; do
    read -r quota period <"$file" || continue
    if [ "$quota" != max ] && [ "$quota" -lt $((cores * period)) ]; then cores=$((quota / period)); fi
  done < <(cgroup_files cpu cpu.max none)
  echo $((cores > 0 ? cores : 1))
}
# Usable memory in MiB: the smaller of free memory and the cgroup's limit.
memory_limit() {
  local least file bytes
  least=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' "$bert_hpc_meminfo" 2>/dev/null || true)
  least=$((${least:-1000000000} / 1024))
  while read -r file; do
    read -r bytes <"$file" || continue
    if [ "$bytes" != max ] && [ $((bytes >> 20)) -lt "$least" ]; then least=$((bytes >> 20)); fi
  done < <(cgroup_files memory memory.max memory.limit_in_bytes)
  echo "$least"
}
# build_jobs: number of parallel compilers: CMAKE_BUILD_PARALLEL_LEVEL, otherwise one per core and GiB (the largest file
# of bert_hpc takes 0.4 GiB under g++ 12 and 0.3 under nvcc 13; other versions and libraries may take more).
build_jobs() {
  local cores jobs
  case ${CMAKE_BUILD_PARALLEL_LEVEL:-} in
    '' | 0 | *[!0-9]*) ;;
    *) echo "$CMAKE_BUILD_PARALLEL_LEVEL"; return ;;
  esac
  cores=$(core_count) jobs=$(($(memory_limit) / 1024))
  if [ $jobs -gt "$cores" ]; then jobs=$cores; fi
  echo $((jobs > 0 ? jobs : 1))
}

# Two build folders, and two checkouts, compile most files identically: ccache may ignore the folder's name in debug
# information and in the paths of sources and headers. Before every build, of parts too: else it finds nothing again.
share_compiler_cache() { export CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD}; }

# The site's own prefixes come first; the cache is for machines that lack a library.
use_cache_prefix() {
  export CMAKE_PREFIX_PATH="${CMAKE_PREFIX_PATH:+$CMAKE_PREFIX_PATH:}$bert_hpc_cache/prefix:$bert_hpc_cache/prefix/usr"
}

# A Kokkos installation supports one kind of device, so the one for GPUs has a separate prefix.
use_cache_cuda() {
  if [ -z "${Kokkos_ROOT:-}" ] && [ -d "$bert_hpc_cache/prefix-cuda/lib" ]; then
    export Kokkos_ROOT=$bert_hpc_cache/prefix-cuda
  fi
}

# Prints the path of a Python with the packages of postprocess/: $BERT_HPC_PYTHON, the cache's environment, or python3.
bert_hpc_python() {
  if [ -n "${BERT_HPC_PYTHON:-}" ]; then
    printf '%s\n' "$BERT_HPC_PYTHON"
  elif [ -x "$bert_hpc_cache/venv/bin/python" ]; then
    printf '%s\n' "$bert_hpc_cache/venv/bin/python"
  else
    command -v python3 || true
  fi
}

# Open MPI refuses to run as root, refuses more ranks than cores, and binds each of one or two ranks to a single core, which all
# threads of the rank would then share. Other MPI libraries ignore these settings. Variables that the user has set are kept.
use_mpi_environment() {
  # An MPI built from a bundle is in the cache.
  if ! have mpirun && [ -x "$bert_hpc_cache/prefix/bin/mpirun" ]; then export PATH="$PATH:$bert_hpc_cache/prefix/bin"; fi
  if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=${OMPI_ALLOW_RUN_AS_ROOT:-1}
    export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=${OMPI_ALLOW_RUN_AS_ROOT_CONFIRM:-1}
  fi
  export OMPI_MCA_rmaps_base_oversubscribe=${OMPI_MCA_rmaps_base_oversubscribe:-1}
  export OMPI_MCA_hwloc_base_binding_policy=${OMPI_MCA_hwloc_base_binding_policy:-none}
  # The same for Open MPI 5, whose launcher reads other variables.
  export PRTE_MCA_rmaps_default_mapping_policy=${PRTE_MCA_rmaps_default_mapping_policy:-:oversubscribe}
  export PRTE_MCA_hwloc_default_binding_policy=${PRTE_MCA_hwloc_default_binding_policy:-none}
  export OMP_PROC_BIND=${OMP_PROC_BIND:-false}
}

# Puts the programs of the installed tree, or of the checkout's last build, first on PATH.
use_programs() {
  local folder
  for folder in "$bert_hpc_share/../../bin" "$bert_hpc_share/build/install/bin"; do
    if [ -x "$folder/bert_hpc" ]; then PATH=$(cd "$folder" && pwd):$PATH; fi
  done
  export PATH
}

# run_study NAME [options]: runs a module of jobs/studies.
run_study() {
  local python name=$1
  shift
  use_programs
  python=$(bert_hpc_python)
  [ -n "$python" ] || fail 2 "there is no Python: install one with h5py, numpy and matplotlib, or set BERT_HPC_PYTHON"
  use_mpi_environment
  export BERT_HPC_JOBS=$bert_hpc_jobs
  exec "$python" "$bert_hpc_jobs/studies/study.py" "$name" "$@"
}

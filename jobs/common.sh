# shellcheck shell=bash disable=SC2034
# Sourced by the scripts of jobs/ and tests/: where things lie, how messages look, and the environment in which MPI
# programs run well on one machine. Defines functions and variables only; changes nothing on disk.

# A checkout has jobs/ at its top; an installed tree has PREFIX/share/bert_hpc/jobs and PREFIX/bin.
bert_hpc_jobs=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bert_hpc_share=$(dirname "$bert_hpc_jobs")
if [ -f "$bert_hpc_share/CMakeLists.txt" ]; then
  bert_hpc_source=$bert_hpc_share
else
  bert_hpc_source=
fi

# Everything fetched or built for bert_hpc lies here, outside the source tree, and may be deleted at any time.
bert_hpc_cache=${BERT_HPC_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/bert_hpc}

say() { printf '== %s\n' "$*"; }
note() { printf '   %s\n' "$*"; }
fail() {
  local status=$1
  shift
  printf 'error: %s\n' "$*" >&2
  exit "$status"
}
have() { command -v "$1" >/dev/null 2>&1; }
# Cores that may be used. Without the unset, nproc answers with OMP_NUM_THREADS, which says nothing about compiling.
core_count() { env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc; }

# The site's own prefixes come first: what the cache holds is for machines that have none.
use_cache_prefix() {
  export CMAKE_PREFIX_PATH="${CMAKE_PREFIX_PATH:+$CMAKE_PREFIX_PATH:}$bert_hpc_cache/prefix:$bert_hpc_cache/prefix/usr"
}

# Kokkos is made for one kind of device: the one for GPUs lies beside the other.
use_cache_cuda() {
  if [ -z "${Kokkos_ROOT:-}" ] && [ -d "$bert_hpc_cache/prefix-cuda/lib" ]; then
    export Kokkos_ROOT=$bert_hpc_cache/prefix-cuda
  fi
}

# Prints the Python that has the packages of postprocess/: $BERT_HPC_PYTHON, the cache's environment, or python3.
bert_hpc_python() {
  if [ -n "${BERT_HPC_PYTHON:-}" ]; then
    printf '%s\n' "$BERT_HPC_PYTHON"
  elif [ -x "$bert_hpc_cache/venv/bin/python" ]; then
    printf '%s\n' "$bert_hpc_cache/venv/bin/python"
  else
    command -v python3 || true
  fi
}

# Open MPI refuses root and counts cores strictly, and binds each of one or two ranks to a single core, where all of its
# threads would then share that core. None of these settings matters to another MPI. What the user has set stays.
use_mpi_environment() {
  # An MPI that was built from a bundle lies in the cache.
  if ! have mpirun && [ -x "$bert_hpc_cache/prefix/bin/mpirun" ]; then export PATH="$PATH:$bert_hpc_cache/prefix/bin"; fi
  if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=${OMPI_ALLOW_RUN_AS_ROOT:-1}
    export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=${OMPI_ALLOW_RUN_AS_ROOT_CONFIRM:-1}
  fi
  export OMPI_MCA_rmaps_base_oversubscribe=${OMPI_MCA_rmaps_base_oversubscribe:-1}
  export OMPI_MCA_hwloc_base_binding_policy=${OMPI_MCA_hwloc_base_binding_policy:-none}
  export OMP_PROC_BIND=${OMP_PROC_BIND:-false}
}

#!/usr/bin/env bash
# Runs an input on this machine: jobs/local.sh INPUT.toml [RANKS] [options of bert_hpc…]. The ranks (default: two, or one
# on a single core) share the cores evenly.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ $# -ge 1 ] || fail 2 "usage: jobs/local.sh INPUT.toml [RANKS] [options of bert_hpc, e.g. --set run.seed=2]"
input=$1
shift
cores=$(core_count)
ranks=$((cores > 1 ? 2 : 1))
case ${1:-} in
  '' | *[!0-9]*) ;;
  *) ranks=$1; shift ;;
esac
for folder in "$bert_hpc_share/../../bin" "$bert_hpc_share/build/install/bin"; do
  if [ -x "$folder/bert_hpc" ]; then PATH=$(cd "$folder" && pwd):$PATH; fi
done
have bert_hpc || fail 2 "bert_hpc is not on PATH and not built: run jobs/build.sh first"
use_mpi_environment
export PATH OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((cores > ranks ? cores / ranks : 1))}

status=0
mpirun -n "$ranks" bert_hpc "$input" "$@" || status=$?
if [ $status = 75 ]; then note "stopped with a checkpoint: the same command goes on from there"; fi
exit $status

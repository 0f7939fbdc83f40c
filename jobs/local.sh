#!/usr/bin/env bash
# Runs an input on this machine: jobs/local.sh INPUT.toml [RANKS] [--time LIMIT] [--log FILE] [options of bert_hpc…]. The ranks
# (default: two, or one on a single core) share the cores evenly. As jobs/train.slurm does, it goes on after a start that ended
# with status 75 (SIGUSR1, or LIMIT, which is run.max_walltime of each start), at most BERT_HPC_MAX_RESTARTS times (default 50);
# SIGTERM asks for a checkpoint and ends it with status 75. FILE gets a copy of what is printed, after what it holds.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ $# -ge 1 ] || fail 2 "usage: jobs/local.sh INPUT.toml [RANKS] [--time LIMIT] [--log FILE] [options of bert_hpc, e.g. --set run.seed=2]"
input=$1
shift
cores=$(core_count)
ranks=$((cores > 1 ? 2 : 1))
case ${1:-} in
  '' | *[!0-9]*) ;;
  *) ranks=$1; shift ;;
esac
limit=() log=
while :; do
  case ${1:-} in
    --time) limit=(--set "run.max_walltime=\"${2:?"--time needs a limit, as 4:00:00"}\""); shift 2 ;;
    --log) log=${2:?"--log needs a file"}; shift 2 ;;
    *) break ;;
  esac
done
for folder in "$bert_hpc_share/../../bin" "$bert_hpc_share/build/install/bin"; do
  if [ -x "$folder/bert_hpc" ]; then PATH=$(cd "$folder" && pwd):$PATH; fi
done
have bert_hpc || fail 2 "bert_hpc is not on PATH and not built: run jobs/build.sh first"
use_mpi_environment
export PATH OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((cores > ranks ? cores / ranks : 1))}

if [ -n "$log" ]; then exec > >(tee -a "$log") 2>&1; fi

# mpirun hands SIGUSR1 and SIGUSR2 on to its ranks; after its own SIGTERM it leaves them a moment only.
launcher='' ends=
# shellcheck disable=SC2317
hand_on() { signalled=1; if [ -n "$launcher" ]; then kill -s "$1" "$launcher" 2>/dev/null || true; fi; }
trap 'hand_on USR1' USR1
trap 'hand_on USR2' USR2
trap 'ends=1; hand_on USR1' TERM
trap 'ends=1; hand_on INT' INT

restarts=0
while :; do
  mpirun -n "$ranks" bert_hpc "$input" ${limit[@]+"${limit[@]}"} "$@" &
  launcher=$!
  while :; do
    signalled='' status=0
    wait "$launcher" || status=$?
    if [ -z "$signalled" ]; then break; fi  # a signal ends a wait before the launcher has ended
  done
  launcher=
  if [ "$status" != 75 ] || [ -n "$ends" ]; then break; fi
  if [ $restarts -ge "${BERT_HPC_MAX_RESTARTS:-50}" ]; then
    note "stopped on request, after $restarts restarts (BERT_HPC_MAX_RESTARTS): the same command goes on from there"
    break
  fi
  restarts=$((restarts + 1))
  note "stopped on request: it goes on, start $((restarts + 1))"
done
exit "$status"

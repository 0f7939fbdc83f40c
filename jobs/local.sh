#!/usr/bin/env bash
# Runs an input on this machine: jobs/local.sh INPUT.toml [RANKS] [--time LIMIT] [--log FILE] [options of bert_hpc…]. The ranks
# (default: two, or one on a single core) share the cores evenly. As jobs/train.slurm does, it goes on after a start that ended
# with status 75 (SIGUSR1, or LIMIT, which is run.max_walltime of each start), at most BERT_HPC_MAX_RESTARTS times (default 50);
# SIGTERM, SIGHUP or Ctrl-C asks for a checkpoint and ends it with status 75; Ctrl-\ ends it at once. FILE gets a copy of what is
# printed, after what it holds.
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
    --time) [ -n "${2:-}" ] || fail 2 "--time needs a limit, as 4:00:00"; limit=(--set "run.max_walltime=\"$2\""); shift 2 ;;
    --log) [ -n "${2:-}" ] || fail 2 "--log needs a file"; log=$2; shift 2 ;;
    *) break ;;
  esac
done
for folder in "$bert_hpc_share/../../bin" "$bert_hpc_share/build/install/bin"; do
  if [ -x "$folder/bert_hpc" ]; then PATH=$(cd "$folder" && pwd):$PATH; fi
done
have bert_hpc || fail 2 "bert_hpc is not on PATH and not built: run jobs/build.sh first"
use_mpi_environment
export PATH OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((cores > ranks ? cores / ranks : 1))}

# The copy goes on to the last line, whichever signals come to all of this.
copy=
if [ -n "$log" ]; then
  exec > >(trap '' HUP INT TERM QUIT USR1 USR2 && exec tee -a "$log") 2>&1
  copy=$!
fi

# mpirun hands SIGUSR1 and SIGUSR2 on to its ranks, which take SIGUSR1 as asking for a checkpoint and an end. After its own SIGTERM
# it leaves them a moment only. What comes before it has ranks it drops: who wants an end asks until there is one.
launcher='' ends=
# shellcheck disable=SC2317
hand_on() { signalled=1; if [ -n "$launcher" ]; then kill -s "$1" "$launcher" 2>/dev/null || true; fi; }
stop() {
  signalled=1 ends=1
  if [ -n "$launcher" ]; then
    while kill -s USR1 "$launcher"; do sleep 1; done >/dev/null 2>&1 &
  fi
}
trap 'hand_on USR1' USR1
trap 'hand_on USR2' USR2
trap 'stop' TERM INT HUP
trap 'ends=1; hand_on TERM' QUIT

restarts=0 status=75
while [ -z "$ends" ]; do
  # In a session of its own: a terminal sends its signals to all that runs in it, and mpirun's answer to SIGINT is to kill.
  setsid mpirun -n "$ranks" bert_hpc "$input" ${limit[@]+"${limit[@]}"} "$@" &
  launcher=$!
  if [ -n "$ends" ]; then stop; fi  # it was asked for before the line above
  while :; do
    signalled='' status=0
    wait "$launcher" || status=$?
    if [ -z "$signalled" ]; then break; fi  # a signal ends a wait before the launcher has ended
  done
  launcher=
  # Who gets SIGUSR1 while the system still loads the program is ended by it, and has nothing to save yet.
  if [ $status = $((128 + $(kill -l USR1))) ]; then status=75; fi
  if [ $status != 75 ] || [ -n "$ends" ]; then break; fi
  if [ $restarts -ge "${BERT_HPC_MAX_RESTARTS:-50}" ]; then
    note "stopped on request, after $restarts restarts (BERT_HPC_MAX_RESTARTS): the same command goes on from there"
    break
  fi
  restarts=$((restarts + 1))
  note "stopped on request: it goes on, start $((restarts + 1))"
done
if [ -n "$copy" ]; then
  exec >&- 2>&-
  wait "$copy" || true
fi
exit $status

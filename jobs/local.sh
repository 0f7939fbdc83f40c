#!/usr/bin/env bash
# Runs an input on this machine without a batch system; see usage() below. Like jobs/train.slurm it restarts bert_hpc
# after a start that ended with status 75, and on a stop request it gives the run time for its checkpoint, which mpirun
# alone does not.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'TEXT'
usage: jobs/local.sh INPUT.toml [RANKS] [--time LIMIT] [--log FILE] [options of bert_hpc]

Runs bert_hpc under mpirun on this machine. RANKS is 2 by default (1 on a single core); the ranks share the cores evenly.
More ranks than cores and running as root, as in containers, are allowed.

  --time LIMIT   wall-time limit of each start (run.max_walltime), for example 4:00:00; the run is then restarted
  --log FILE     append a copy of the output to FILE
  --help         print this and exit; bert_hpc --help prints the options of bert_hpc, for example --set table.key=VALUE

A start that ends with status 75 (SIGUSR1 or LIMIT) is restarted and resumes from its checkpoint, at most
BERT_HPC_MAX_RESTARTS times (default 50).
Ctrl-C, SIGTERM and SIGHUP write a checkpoint, then exit with status 75: the same command resumes. SIGUSR2 writes a checkpoint
and continues. Ctrl-\ exits at once, without a checkpoint.
mpirun's own messages after an error are off; OMPI_MCA_orte_execute_quiet=0 turns them on.
TEXT
}

input='' ranks='' log='' limit=() options=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --time=* | --log=*) set -- "${1%%=*}" "${1#*=}" "${@:2}"; continue ;;
    --time)
      [ -n "${2:-}" ] || fail 2 "--time needs a limit, for example 4:00:00"
      limit=(--set "run.max_walltime=\"$2\"")
      shift ;;
    --log) [ -n "${2:-}" ] || fail 2 "--log needs a file"; log=$2; shift ;;
    --set | --ranks | --tokens | --mean-length)  # options of bert_hpc with a value
      options+=("$1")
      if [ $# -gt 1 ]; then options+=("$2"); shift; fi ;;
    -*) options+=("$1") ;;
    *)
      if [ -z "$input" ]; then
        input=$1
      elif [ -z "$ranks" ] && [[ $1 =~ ^[1-9][0-9]*$ ]]; then
        ranks=$1
      else
        options+=("$1")
      fi ;;
  esac
  shift
done
[ -n "$input" ] || fail 2 "the input file is missing; jobs/local.sh --help prints the usage"
cores=$(core_count)
ranks=${ranks:-$((cores > 1 ? 2 : 1))}
use_programs
have bert_hpc || fail 2 "bert_hpc is not on PATH and not built: run jobs/build.sh first"
use_mpi_environment
# Each error of bert_hpc is one block; Open MPI would add ten lines of no use.
export OMPI_MCA_orte_execute_quiet=${OMPI_MCA_orte_execute_quiet:-1}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((cores > ranks ? cores / ranks : 1))}

# The copy must receive the last line, whatever signals reach the process group.
copy=
if [ -n "$log" ]; then
  exec > >(trap '' HUP INT TERM QUIT USR1 USR2 && exec tee -a "$log") 2>&1
  copy=$!
fi

# mpirun forwards SIGUSR1 and SIGUSR2 to its ranks; a rank answers SIGUSR1 with a checkpoint and exits. After SIGTERM mpirun kills
# its ranks within 2 s. It drops signals that arrive before its ranks have started, so stop() repeats the request until it exits.
# The ranks read in a file what they are asked by SIGUSR1, to name it in the log.
reason=$(mktemp "${TMPDIR:-/tmp}/bert_hpc-reason.XXXXXX" 2>/dev/null) || reason=
export BERT_HPC_STOP_REASON=$reason
trap '[ -z "$reason" ] || rm -f "$reason"' EXIT
launcher='' ends=
# shellcheck disable=SC2317
forward() { signalled=1; if [ -n "$launcher" ]; then kill -s "$1" "$launcher" 2>/dev/null || true; fi; }
stop() {
  signalled=1
  if [ -z "$ends" ]; then
    note "$1: the run ends after this step; Ctrl-\\ ends it at once, without a checkpoint"
    if [ -n "$reason" ]; then printf '%s\n' "$1" >"$reason"; fi
  fi
  ends=1
  repeat_request
}
repeat_request() {
  if [ -n "$launcher" ]; then
    while kill -s USR1 "$launcher"; do sleep 1; done >/dev/null 2>&1 &
  fi
}
trap 'forward USR1' USR1
trap 'forward USR2' USR2
trap 'stop SIGTERM' TERM
trap 'stop "SIGINT (Ctrl-C)"' INT
trap 'stop SIGHUP' HUP
trap 'ends=1; forward TERM' QUIT

restarts=0 status=75
while [ -z "$ends" ]; do
  # In its own session: a terminal signals every process of its foreground group, and mpirun kills its ranks on SIGINT.
  setsid mpirun -n "$ranks" bert_hpc "$input" ${limit[@]+"${limit[@]}"} ${options[@]+"${options[@]}"} &
  launcher=$!
  if [ -n "$ends" ]; then repeat_request; fi  # the signal came before $launcher was set
  while :; do
    signalled='' status=0
    wait "$launcher" || status=$?
    if [ -z "$signalled" ]; then break; fi  # a signal interrupts wait before the launcher has ended
  done
  launcher=
  # SIGUSR1 ends a process that has not installed its handlers yet; then there is nothing to save.
  if [ $status = $((128 + $(kill -l USR1))) ]; then status=75; fi
  if [ $status != 75 ] || [ -n "$ends" ]; then break; fi
  if [ $restarts -ge "${BERT_HPC_MAX_RESTARTS:-50}" ]; then
    note "stopped with a checkpoint after $restarts restarts (BERT_HPC_MAX_RESTARTS): the same command resumes from it"
    break
  fi
  restarts=$((restarts + 1))
  note "stopped with a checkpoint: resuming, start $((restarts + 1))"
done
case $status in
  0 | [2-6] | 75) ;;
  137) note "a rank was killed (SIGKILL): often because the machine has too little memory" ;;
  *) note "status $status; if no error is printed above, set OMPI_MCA_orte_execute_quiet=0 to see the messages of mpirun" ;;
esac
if [ -n "$copy" ]; then
  exec >&- 2>&-
  wait "$copy" || true
fi
exit $status

# shellcheck shell=bash
# Sourced by run.sh and bench.sh of the bundle for GPU machines: runs one step after another within a time. A step that
# fails, crashes or hangs ends alone. As each ends, a line has its result, its seconds and a summary.
#   begin NAME [ARGUMENT]…          reads the arguments below; results go to ${OUT:-.}/NAME.log (all output) and
#                                   ${OUT:-.}/NAME.md (the lines, as a table)
#   step STEP SECONDS COMMAND…      exit status 4 or 77: skipped. The step's line ends with its last line of output that
#                                   begins with "= ", or with the summary of Catch2 or Python's unittest
#   finish                          prints the counts; status 0 if no step failed or was left out
# Arguments: --seconds N: the whole run ends within N seconds (default 300), later steps are not run; --step-seconds N: no
# step takes longer; --from STEP: steps before it are left out; --only REGEX, --skip REGEX: by the steps' names; --list:
# only their names.

begin() {
  local name
  steps_name=$1 steps_seconds=300 steps_from='' steps_only='' steps_skip='' steps_list='' steps_step_seconds=100000
  shift
  while [ $# -gt 0 ]; do
    case $1 in
      --seconds | --step-seconds | --from | --only | --skip)
        [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 2; }
        name=${1#--}
        printf -v "steps_${name//-/_}" %s "$2"
        shift
        ;;
      --list) steps_list=1 ;;
      *) echo "usage: $steps_name.sh [--seconds N] [--step-seconds N] [--from STEP] [--only REGEX] [--skip REGEX] [--list]" >&2; exit 2 ;;
    esac
    shift
  done
  for name in "$steps_seconds" "$steps_step_seconds"; do
    case $name in '' | *[!0-9]*) echo "\"$name\" is no whole number of seconds" >&2; exit 2 ;; esac
  done
  steps_begin=$(milliseconds) steps_child='' steps_next=''
  steps_passed=0 steps_failed=0 steps_skipped=0 steps_left=0
  [ -z "$steps_list" ] || return 0
  OUT=$(mkdir -p "${OUT:-.}" && cd "${OUT:-.}" && pwd) || exit 2
  export OUT
  steps_scratch=$(mktemp -d) || exit 2
  trap 'rm -rf "$steps_scratch"' EXIT
  trap 'stop 143' TERM
  trap 'stop 130' INT
  : >"$OUT/$steps_name.log"
  printf '| step | result | seconds | |\n|---|---|---:|---|\n' >"$OUT/$steps_name.md"
}

milliseconds() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }

# show STEP RESULT MILLISECONDS WORDS
show() {
  local seconds
  seconds=$(printf '%d.%d' $(($3 / 1000)) $(($3 % 1000 / 100)))
  printf '%-8s %6s s  %s%s\n' "$2" "$seconds" "$1" "${4:+: $4}"
  printf '| %s | %s | %s | %s |\n' "$1" "$2" "$seconds" "${4//|/ }" >>"$OUT/$steps_name.md"
}

# The line that says most of a step's output.
summary_of() {
  grep -aE '^(= |All tests passed|test cases:|Ran [0-9]+ test|skipped: )' "$1" | tail -n 1 | sed 's/^= //' | cut -c1-200
}

step() {
  local name=$1 limit=$2 begin left taken status=0 result
  shift 2
  if [ -n "$steps_from" ]; then
    [ "$name" = "$steps_from" ] || return 0
    steps_from=
  fi
  if [ -n "$steps_only" ] && ! [[ $name =~ $steps_only ]]; then return 0; fi
  if [ -n "$steps_skip" ] && [[ $name =~ $steps_skip ]]; then return 0; fi
  if [ -n "$steps_list" ]; then echo "$name"; return 0; fi
  begin=$(milliseconds)
  # A step that does not end when asked to is killed 3 seconds later.
  left=$((steps_seconds - (begin - steps_begin + 999) / 1000 - 3))
  if [ $left -lt 1 ]; then
    steps_left=$((steps_left + 1)) steps_next=${steps_next:-$name}
    show "$name" 'NOT RUN' 0 'no time is left'
    return 0
  fi
  if [ "$limit" -gt "$steps_step_seconds" ]; then limit=$steps_step_seconds; fi
  if [ "$limit" -gt $left ]; then limit=$left; fi
  # In the background, so that a signal to this script is handled at once.
  timeout -k 3 "$limit" "$@" </dev/null >"$steps_scratch/output" 2>&1 &
  steps_child=$!
  wait $steps_child 2>/dev/null || status=$?
  steps_child='' taken=$(($(milliseconds) - begin))
  { printf '==== %s (status %s): %s\n' "$name" $status "$*"; cat "$steps_scratch/output"; } >>"$OUT/$steps_name.log"
  case $status in
    0) result=passed steps_passed=$((steps_passed + 1)) ;;
    4 | 77) result=skipped steps_skipped=$((steps_skipped + 1)) ;;
    124) result=TIMEOUT ;;
    137) if [ $taken -ge $((limit * 1000)) ]; then result=TIMEOUT; else result=CRASHED; fi ;;
    *) if [ $status -gt 128 ]; then result=CRASHED; else result=FAILED; fi ;;
  esac
  show "$name" $result $taken "$(summary_of "$steps_scratch/output")"
  case $result in
    TIMEOUT | CRASHED | FAILED)
      steps_failed=$((steps_failed + 1))
      echo "    status $status; the end of its output:"
      tail -n 8 "$steps_scratch/output" | cut -c1-200 | sed 's/^/    /'
      ;;
  esac
}

counts() {
  local line="$steps_passed passed, $steps_failed failed, $steps_skipped skipped"
  if [ $steps_left -gt 0 ]; then line+=", $steps_left not run: continue with --from $steps_next"; fi
  printf '%s\n' "$line"
  printf '\n%s\n' "$line" >>"$OUT/$steps_name.md"
}

# stop STATUS: a signal asks the run to end.
stop() {
  if [ -n "$steps_child" ]; then kill "$steps_child" 2>/dev/null; wait "$steps_child"; fi
  echo "stopped by a signal"
  counts
  exit "$1"
}

finish() {
  [ -z "$steps_list" ] || exit 0
  if [ -n "$steps_from" ]; then echo "no step is named $steps_from: see --list" >&2; exit 2; fi
  counts
  [ $steps_failed = 0 ] && [ $steps_left = 0 ] && [ $steps_passed -gt 0 ]
}

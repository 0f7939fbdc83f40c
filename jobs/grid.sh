#!/usr/bin/env bash
# Runs one input with several settings and compares the runs; see usage() below.
set -euo pipefail
# Slurm runs a copy of this script: the rest of jobs/ is in the installed tree or in the folder of submission.
for folder in "$(dirname "${BASH_SOURCE[0]}")" "${BERT_HPC_ROOT:-/nowhere}/share/bert_hpc/jobs" "${SLURM_SUBMIT_DIR:-.}/jobs" \
  "${SLURM_SUBMIT_DIR:-.}"; do
  if [ -f "$folder/common.sh" ]; then break; fi
done
if [ ! -f "$folder/common.sh" ]; then
  echo "cannot find common.sh of jobs/: load the module of bert_hpc, or submit from the folder that has it" >&2
  exit 2
fi
# shellcheck source=common.sh
. "$folder/common.sh"

usage() {
  cat <<'TEXT'
usage: jobs/grid.sh INPUT.toml GRID DIRECTORY [RANKS] [options of bert_hpc]
       sbatch --array=1-N [resources] jobs/grid.sh INPUT.toml GRID DIRECTORY [options of bert_hpc]

Each line of the file GRID is a name and settings, for example
    lora  model.trainable="lora" model.lora.targets=["query","value"]
A value is TOML without blanks. Settings after the name * hold for all lines; "#" begins a comment. Of several values of one
setting the last counts: INPUT.toml, the line *, the line of the run, the command line (--set table.key=VALUE). So --set
schedule.epochs=1 shortens all runs.

The run of a line goes to DIRECTORY/NAME. On this machine the lines run one after the other (jobs/local.sh), and the runs are
compared in DIRECTORY/report (not with BERT_HPC_GRID_REPORT=0), with the failed ones and their errors. In a job array of Slurm
task K runs the K-th line (jobs/train.slurm; its #SBATCH lines have no effect there), and postprocess/report.py DIRECTORY compares
the runs afterwards.

With --chain among the options the lines are the phases of one training: each begins with the parameters and optimizer states of the
line before it (run.previous_phase), and a failed one is the last. Under Slurm submit one line after the other (jobs/README.md).

A finished run is skipped (not with --overwrite). If INPUT.toml or a setting has changed (but those of [debug]), the line
runs again, and the earlier run is kept in DIRECTORY/.grid, which also has the settings and errors of each line. Other ranks
are no change. A file DIRECTORY/.grid/NAME.needs may say what else the run depends on: then its text counts as well.
BERT_HPC_GRID_RUN=0 only moves changed runs to DIRECTORY/.grid.
Exit status: 0 all runs ended well, else that of the first one that did not, or of the report if only it failed; 2 the file
or the command line is wrong.
TEXT
}

case ${1:-} in -h | --help) usage; exit 0 ;; esac
[ $# -ge 3 ] || fail 2 "INPUT.toml, GRID or DIRECTORY is missing; jobs/grid.sh --help prints the usage"
input=$1 grid=$2 directory=$3
shift 3
chain='' rest=()
for argument; do
  if [ "$argument" = --chain ]; then chain=1; else rest+=("$argument"); fi
done
set -- ${rest[@]+"${rest[@]}"}
for file in "$input" "$grid"; do [ -f "$file" ] || fail 2 "there is no file $file"; done

# Settings of all lines, and of each: their words, separated by blanks.
names=() settings=() common='' problems=0 number=0
wrong() {
  printf 'error: %s, line %s: %s\n' "$grid" "$number" "$*" >&2
  problems=$((problems + 1))
}
while IFS= read -r line || [ -n "$line" ]; do
  number=$((number + 1)) line=${line%%#*}
  read -ra words <<<"$line"
  if [ ${#words[@]} = 0 ]; then continue; fi
  name=${words[0]}
  for word in "${words[@]:1}"; do
    [[ $word =~ ^[a-z_0-9.]+\.[a-z_0-9]+=.+$ ]] || wrong "'$word' is no setting of the form table.key=VALUE; a value has no blanks"
  done
  if [ "$name" = '*' ]; then
    common+=" ${words[*]:1}"
  elif ! [[ $name =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]] || [ "$name" = report ]; then
    wrong "'$name' cannot name a run: use letters, digits, '.', '_' and '-', and not 'report'"
  elif [[ " ${names[*]:-} " == *" $name "* ]]; then
    wrong "a second run has the name '$name'"
  else
    names+=("$name") settings+=("${words[*]:1}")
  fi
done <"$grid"
if [ $problems = 0 ] && [ ${#names[@]} = 0 ]; then wrong "the file names no run"; fi
[ $problems = 0 ] || exit 2

# Settings of the command line.
given=() overwrite=''
for ((i = 1; i <= $#; i++)); do
  case ${!i} in
    --set) i=$((i + 1)); if [ $i -le $# ]; then given+=("${!i}"); fi ;;
    --set=*) word=${!i}; given+=("${word#--set=}") ;;
    --overwrite) overwrite=1 ;;
  esac
done
if [[ " $common ${settings[*]} ${given[*]:-}" = *" run.directory="* ]]; then
  fail 2 "run.directory cannot be set here: the run of a line goes to $directory/NAME"
fi

# options_of INDEX: the options of bert_hpc for a line, in the array `options`.
options_of() {
  local word words
  read -ra words <<<"$common ${settings[$1]}"
  options=(--set "run.directory=\"$directory/${names[$1]}\"")
  if [ -n "$chain" ]; then
    options+=(--set checkpoint.at_end=true)
    if [ "$1" -gt 0 ]; then options+=(--set "run.previous_phase=\"$directory/${names[$1 - 1]}\""); fi
  fi
  for word in "${words[@]}"; do options+=(--set "$word"); done
}

# settings_of INDEX: what decides the run's result: the last value of each setting, the input without comments, and the
# file NAME.needs.
settings_of() {
  local word words needs=$directory/.grid/${names[$1]}.needs
  local -A last=()
  read -ra words <<<"$common ${settings[$1]}"
  for word in ${words[@]+"${words[@]}"} ${given[@]+"${given[@]}"}; do
    case $word in debug.*) ;; *) last[${word%%=*}]=${word#*=} ;; esac
  done
  for word in "${!last[@]}"; do printf '%s=%s\n' "$word" "${last[$word]}"; done | LC_ALL=C sort
  printf '\n'
  sed -E 's/[[:space:]]+#[^"'"'"']*$//; s/[[:space:]]+$//; /^[[:space:]]*(#|$)/d' "$input"
  if [ -f "$needs" ]; then cat "$needs"; fi
  if [ -n "$chain" ] && [ "$1" -gt 0 ]; then
    printf '\nafter %s\n' "${names[$1 - 1]}"
    settings_of $(($1 - 1))
  fi
}

# move_changed INDEX: sets `now` to the settings of a line, and moves a run that had others to .grid.
move_changed() {
  local name=${names[$1]} number=1
  local run=$directory/$name record=$directory/.grid/$name.settings
  now=$(settings_of "$1")
  if [ -f "$record" ] && [ -d "$run" ] && [ "$now" != "$(cat "$record")" ]; then
    [ ! -e "$run/.lock" ] ||
      fail 4 "$name: its settings have changed, but $run/.lock says that it is still running; remove $run if it is not"
    while [ -e "$directory/.grid/$name.before-$number" ]; do number=$((number + 1)); done
    mv "$run" "$directory/.grid/$name.before-$number"
    say "$name: its settings have changed, so it runs again; the earlier run is in $directory/.grid/$name.before-$number"
    diff <(cat "$record") <(printf '%s\n' "$now") | sed -n 's/^</   before:/p; s/^>/   now:   /p' || true
  fi
}

# prepare INDEX: moves a changed run, and records the settings of a line.
prepare() {
  local now record=$directory/.grid/${names[$1]}.settings
  move_changed "$1"
  mkdir -p "$directory/.grid" || fail 4 "cannot make the folder $directory/.grid"
  printf '%s\n' "${names[@]}" >"$directory/.grid/names.$$"  # for report.py; tasks of an array write it at the same time
  mv "$directory/.grid/names.$$" "$directory/.grid/names"
  if [ -f "$record" ] || ! finished "$directory/${names[$1]}"; then printf '%s\n' "$now" >"$record"; fi
}
finished() { [ -z "$overwrite" ] && [ "$(cat "$1/.status" 2>/dev/null)" = finished ]; }

if [ "${BERT_HPC_GRID_RUN:-1}" = 0 ]; then
  for index in "${!names[@]}"; do move_changed "$index"; done
  exit 0
fi

if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then
  index=$((SLURM_ARRAY_TASK_ID - 1))
  if [ $index -lt 0 ] || [ $index -ge ${#names[@]} ]; then
    fail 2 "task $SLURM_ARRAY_TASK_ID has no line: $grid names ${#names[@]} runs, --array=1-${#names[@]}"
  fi
  prepare $index
  options_of $index
  exec bash "$bert_hpc_jobs/train.slurm" "$input" "${options[@]}" "$@"
fi

# run_line INDEX [options]: runs a line, with a copy of its errors in .grid; sets `own` to its exit status.
run_line() {
  local errors=$directory/.grid/${names[$1]}.errors copy index=$1
  options_of "$index"
  shift
  exec 3> >(trap '' HUP INT TERM QUIT USR1 USR2 && exec tee "$errors" >&2)
  copy=$!
  own=0
  bash "$bert_hpc_jobs/local.sh" "$input" "${options[@]}" "$@" 2>&3 3>&- || own=$?
  exec 3>&-
  wait "$copy" || true
  printf '%s\n' "$own" >"$directory/.grid/${names[$index]}.status"
}

# last_error FILE: its last line with an error, and the next one if that lists what is wrong.
last_error() {
  awk '/error: / { sub(/^.*error: /, "error: "); text = $0; list = text ~ /:$/; next }
       list { sub(/^ +/, ""); text = text " " $0; list = 0 }
       END { print text }' "$1"
}

status=0 reported=none failures=()
for index in "${!names[@]}"; do
  name=${names[$index]} run=$directory/${names[$index]}
  prepare "$index"
  if finished "$run"; then
    say "$name: finished before"
    continue
  fi
  say "$name: ${settings[$index]:-the input as it is}"
  run_line "$index" "$@"
  if [ $own = 75 ]; then  # a stop was requested
    note "$name was stopped: the same command resumes it"
    exit 75
  fi
  if [ $own != 0 ]; then
    note "$name ended with status $own"
    failures+=("$name ended with status $own: $(last_error "$directory/.grid/$name.errors")")
    if [ $status = 0 ]; then status=$own; fi
    if [ -n "$chain" ]; then break; fi
  fi
done
python=$(bert_hpc_python)
if [ "${BERT_HPC_GRID_REPORT:-1}" != 0 ]; then
  if [ -n "$python" ] && "$python" -c 'import h5py, matplotlib' 2>/dev/null; then
    what="comparison.md compares the runs"
    if [ ${#names[@]} = 1 ]; then what="summary.md has the run"; fi
    say "Report: $directory/report/$what"
    "$python" "$bert_hpc_share/postprocess/report.py" "$directory" && reported=0 || reported=$?
  else
    say "Report: skipped, because no Python with h5py, numpy and matplotlib was found (set BERT_HPC_PYTHON to one)"
  fi
fi
if [ ${#failures[@]} -gt 0 ] && [ "$reported" != 0 ]; then  # the report ends with them
  say "${#failures[@]} of ${#names[@]} runs failed:"
  for failure in "${failures[@]}"; do note "$failure"; done
fi
if [ $status = 0 ] && [ "$reported" != none ]; then status=$reported; fi
exit $status

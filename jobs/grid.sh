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
A value is TOML without blanks. Settings after the name * hold for all lines; "#" begins a comment. The run of a line goes to
DIRECTORY/NAME. On this machine the lines run one after the other (jobs/local.sh), finished runs are skipped, and the runs are
compared in DIRECTORY/report (not with BERT_HPC_GRID_REPORT=0). In a job array of Slurm task K runs the K-th line
(jobs/train.slurm; its #SBATCH lines have no effect there).
Exit status: 0 all runs ended well, else that of the first one that did not; 2 the file or the command line is wrong.
TEXT
}

case ${1:-} in -h | --help) usage; exit 0 ;; esac
[ $# -ge 3 ] || fail 2 "INPUT.toml, GRID or DIRECTORY is missing; jobs/grid.sh --help prints the usage"
input=$1 grid=$2 directory=$3
shift 3
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

# options_of INDEX: the options of bert_hpc for a line, in the array `options`.
options_of() {
  local word words
  read -ra words <<<"$common ${settings[$1]}"
  options=(--set "run.directory=\"$directory/${names[$1]}\"")
  for word in "${words[@]}"; do options+=(--set "$word"); done
}

if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then
  index=$((SLURM_ARRAY_TASK_ID - 1))
  if [ $index -lt 0 ] || [ $index -ge ${#names[@]} ]; then
    fail 2 "task $SLURM_ARRAY_TASK_ID has no line: $grid names ${#names[@]} runs, --array=1-${#names[@]}"
  fi
  options_of $index
  exec bash "$bert_hpc_jobs/train.slurm" "$input" "${options[@]}" "$@"
fi

status=0 runs=()
for index in "${!names[@]}"; do
  name=${names[$index]} run=$directory/${names[$index]}
  if [ "$(cat "$run/.status" 2>/dev/null)" = finished ]; then
    say "$name: finished before"
  else
    say "$name: ${settings[$index]:-the input as it is}"
    options_of "$index"
    own=0
    bash "$bert_hpc_jobs/local.sh" "$input" "$@" "${options[@]}" || own=$?
    if [ $own = 75 ]; then exit 75; fi  # a stop was requested
    if [ $own != 0 ]; then
      note "$name ended with status $own"
      if [ $status = 0 ]; then status=$own; fi
      continue
    fi
  fi
  runs+=("$name=$run")
done
python=$(bert_hpc_python)
if [ "${BERT_HPC_GRID_REPORT:-1}" = 0 ]; then exit $status; fi
if [ ${#runs[@]} -gt 0 ] && [ -n "$python" ] && "$python" -c 'import h5py, matplotlib' 2>/dev/null; then
  say "Report: $directory/report/summary.md compares the runs"
  "$python" "$bert_hpc_share/postprocess/report.py" "${runs[@]}" --output "$directory/report"
elif [ ${#runs[@]} -gt 0 ]; then
  say "Report: skipped, because no Python with h5py, numpy and matplotlib was found (set BERT_HPC_PYTHON to one)"
fi
exit $status

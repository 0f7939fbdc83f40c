#!/usr/bin/env bash
# Sets up, builds (warnings are errors) and runs every test. The last line counts ctest's entries:
# "N passed, N failed, N skipped"; before it are the ten longest entries, the minutes of each phase, and the failed entries
# with the end of their output. Other arguments go to ctest, e.g. `tests/run.sh -L unit` or `tests/run.sh -R softmax`.
# Formatting and style run first, before anything is compiled: if they fail, the run ends. Options come first:
#   --quick             unit tests, golden files, programs under MPI and style, without the CUDA build: before each commit
#   --busy              one niced process per core keeps the machine busy: no entry depends on the machine's speed
#   --sanitize          with AddressSanitizer (leaks included) and UndefinedBehaviorSanitizer, in build-sanitize
#   --no-cuda, --cuda   without the CUDA build, or with it. If there is nvcc, it is built by default, in build-cuda, for one
#                       kind of GPU; its tests, labelled gpu, are skipped on machines without a GPU.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
. jobs/common.sh

build=build options=() cuda=0 busy=0 chosen=()
if have nvcc; then cuda=1; fi
while :; do
  case ${1:-} in
    --quick) cuda=0 chosen=(-L '^(unit|golden|mpi|style)$') ;;
    --busy) busy=1 ;;
    --sanitize) build=build-sanitize options=(--sanitize) cuda=0 ;;
    --cuda) cuda=1 ;;
    --no-cuda) cuda=0 ;;
    *) break ;;
  esac
  shift
done
chosen+=("$@")
# The readers' fuzzers in passing; a longer run is one of its own.
export BERT_HPC_FUZZ_SECONDS=${BERT_HPC_FUZZ_SECONDS:-5}
passed=0 failed=0 skipped=0
skipped_names='' failures='' phases='' times=''

# phase NAME: its time begins, that of the phase before ends.
phase_name='' phase_start=$SECONDS
phase() {
  local seconds=$((SECONDS - phase_start))
  if [ -n "$phase_name" ]; then
    phases+=$(printf '   %3d:%02d  %s' $((seconds / 60)) $((seconds % 60)) "$phase_name")$'\n'
  fi
  phase_name=$1 phase_start=$SECONDS
}

# Programs beside this script end with it, however it ends: each is a process group of its own.
beside=()
end_beside() {
  local group
  for group in ${beside[@]+"${beside[@]}"}; do kill -- -"$group" 2>/dev/null; done
  if [ ${#beside[@]} -gt 0 ]; then wait "${beside[@]}" 2>/dev/null; fi
}
trap end_beside EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
start_beside() {
  set -m
  "$@" &
  beside+=($!)
  set +m
}
start_spinners() {
  local core
  for ((core = $(core_count); core > 0; core--)); do
    start_beside nice -n 5 bash -c 'while kill -0 "$1" 2>/dev/null; do for ((i = 0; i < 100000; i++)); do :; done; done' spinner $$
  done
}

finish() {
  phase ''
  if [ "$skipped" -gt 0 ]; then
    say "Skipped"
    printf '%s' "$skipped_names" | grep .
  fi
  if [ $((passed + failed)) -eq 0 ]; then
    echo "no test ran" >&2
    failed=1
  fi
  if [ -n "$times" ]; then
    say "Longest entries, in seconds"
    printf '%s' "$times" | LC_ALL=C sort -rn | head -n 10 | while read -r seconds name; do printf '   %6.1f  %s\n' "$seconds" "$name"; done
  fi
  say "Minutes of each phase"
  printf '%s' "$phases"
  if [ -n "$failures" ]; then
    say "Failed"
    printf '%s' "$failures"
  fi
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" -eq 0 ]
  exit
}

# unescape: XML's escapes become characters.
unescape() { sed 's/&quot;/"/g; s/&lt;/</g; s/&gt;/>/g; s/&apos;/'\''/g; s/&amp;/\&/g'; }
# failures_in REPORT: the name of each entry that failed or could not start, and the last 25 lines of its output.
failures_in() {
  awk '
    /<testcase / { count = 0; failed = !/ status="run"/; name = $0 }
    /<skipped message="SKIP_/ { failed = 0 }
    { lines[count++] = $0 }
    /<\/testcase>/ && failed {
      match(name, /name="[^"]*"/)
      print "-- " substr(name, RSTART + 6, RLENGTH - 7)
      for (i = count > 28 ? count - 26 : 2; i < count - 1; i++) {
        gsub(/[[:space:]]*<\/?system-out>/, "", lines[i])
        if (lines[i] != "") print "   " lines[i]
      }
    }' "$1" | unescape
}
# times_in REPORT: "SECONDS NAME" of each entry that ran.
times_in() {
  sed -n 's/.*<testcase name="\([^"]*\)".* time="\([0-9.]*\)" status="\(run\|fail\)".*/\2 \1/p' "$1" | unescape
}
# keep_times FOLDER TIMES: for the order of the next run (CMakeLists.txt), beside those of entries that did not run now.
keep_times() {
  local kept=$1/seconds.txt
  { printf '%s\n' "$2"; cat "$kept" 2>/dev/null; } |
    awk '{ name = substr($0, index($0, " ") + 1) } NF > 1 && !seen[name]++ && $1 >= 3 { printf "%d %s\n", $1 + 0.5, name }' >"$kept.new"
  LC_ALL=C sort -rn "$kept.new" >"$kept"
  rm -f "$kept.new"
}

# test_in FOLDER REPORT ARGUMENTS-OF-CTEST…: adds to the counts. ctest's own report counts what it skipped; what could not
# be started counts as failed. Two jobs a core: a script that starts ranks counts as two, and waits for launchers half of
# its time.
count() { grep -c "$1" "$report" 2>/dev/null; true; }
test_in() {
  local folder=$1 report=$PWD/$1/$2 cores status all good left new
  shift 2
  say "Testing in $folder"
  rm -f "$report"
  cores=$(core_count)
  ctest --test-dir "$folder" --output-on-failure --timeout 600 -j $((2 * cores)) --output-junit "$report" "$@"
  status=$?
  all=$(count '<testcase ') good=$(count '<testcase .*status="run"') left=$(count '<skipped message="SKIP_')
  passed=$((passed + good)) skipped=$((skipped + left)) failed=$((failed + all - good - left))
  skipped_names+=$(grep -B 1 '<skipped message="SKIP_' "$report" | sed -n 's/.*<testcase name="\([^"]*\)".*/   \1/p')$'\n'
  if [ "$status" -ne 0 ] && [ "$all" -eq $((good + left)) ]; then failed=$((failed + 1)); fi
  failures+=$(failures_in "$report" && printf .)
  failures=${failures%.}
  new=$(times_in "$report")
  times+=$new$'\n'
  if [ $busy = 0 ]; then keep_times "$folder" "$new"; fi
}
stop() {
  echo "$1" >&2
  failed=$((failed + 1))
  finish
}

if [ $busy = 1 ]; then start_spinners; fi
phase "set-up"
./jobs/setup.sh --tests || stop "the set-up failed, so no test ran"
share_compiler_cache
prepare=(./jobs/build.sh --tests --werror ${options[@]+"${options[@]}"})
"${prepare[@]}" --configure-only || stop "the build cannot be configured, so no test ran"
phase "style"
test_in "$build" tests-first.xml -L '^first$' ${chosen[@]+"${chosen[@]}"}
if [ "$failed" -gt 0 ]; then finish; fi
phase "product build"
cmake --build "$build" -j "$(build_jobs)" --target bert_hpc bert_hpc_prep bert_hpc_score || stop "the build failed, so no test ran"
phase "test build"
"${prepare[@]}" || stop "the build failed, so no test ran"
# The CUDA build takes what the tests leave of the cores.
phase "run"
if [ $cuda = 1 ]; then
  cuda_log=$build/cuda.log
  build_cuda() { CUDA_ARCHITECTURES=${CUDA_ARCHITECTURES:-90-real} nice -n 19 ./jobs/build.sh --cuda --tests --werror >"$cuda_log" 2>&1; }
  start_beside build_cuda
  cuda_build=$!
fi
test_in "$build" tests.xml -LE '^first$' ${chosen[@]+"${chosen[@]}"}
if [ $cuda = 1 ]; then
  phase "rest of the CUDA build"
  say "Building in build-cuda"
  if wait "$cuda_build"; then
    phase "CUDA run"
    test_in build-cuda tests.xml ${chosen[@]+"${chosen[@]}"}
  else
    tail -n 100 "$cuda_log" >&2
    echo "the CUDA build failed (above)" >&2
    failed=$((failed + 1))
  fi
fi
finish

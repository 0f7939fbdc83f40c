#!/usr/bin/env bash
# Sets up, builds (warnings are errors) and runs every test. The last line counts ctest's entries:
# "N passed, N failed, N skipped". Arguments go to ctest, e.g. `tests/run.sh -L unit` or `tests/run.sh -R softmax`.
# With --sanitize first, everything is built with AddressSanitizer (leaks included) and UndefinedBehaviorSanitizer, in
# build-sanitize.
# Where there is nvcc, the CUDA variant is built too, in build-cuda, for one kind of GPU; its tests, labelled gpu, are skipped
# where there is no GPU. --no-cuda first leaves it out, --cuda wants it.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
. jobs/common.sh

build=build options=() cuda=0
if have nvcc; then cuda=1; fi
while :; do
  case ${1:-} in
    --sanitize) build=build-sanitize options=(--sanitize) cuda=0 ;;
    --cuda) cuda=1 ;;
    --no-cuda) cuda=0 ;;
    *) break ;;
  esac
  shift
done
passed=0 failed=0 skipped=0
skipped_names=

# test_in FOLDER ARGUMENTS-OF-CTEST…: adds to the counts. ctest's own report counts what it skipped; what could not be
# started counts as failed.
count() { grep -c "$1" "$report" 2>/dev/null; true; }
test_in() {
  local folder=$1 status all good left
  shift
  say "Testing in $folder"
  report=$PWD/$folder/tests.xml
  rm -f "$report"
  ctest --test-dir "$folder" --output-on-failure --timeout 600 -j "$(core_count)" --output-junit "$report" "$@"
  status=$?
  all=$(count '<testcase ') good=$(count '<testcase .*status="run"') left=$(count '<skipped message="SKIP_')
  passed=$((passed + good)) skipped=$((skipped + left)) failed=$((failed + all - good - left))
  skipped_names+=$(grep -B 1 '<skipped message="SKIP_' "$report" | sed -n 's/.*<testcase name="\([^"]*\)".*/   \1/p')$'\n'
  if [ "$status" -ne 0 ] && [ "$all" -eq $((good + left)) ]; then failed=$((failed + 1)); fi
}

if ! ./jobs/build.sh --tests --werror ${options[@]+"${options[@]}"}; then
  echo "the build failed, so no test ran" >&2
  echo "0 passed, 1 failed, 0 skipped"
  exit 1
fi
test_in "$build" "$@"
if [ $cuda = 1 ]; then
  if CUDA_ARCHITECTURES=${CUDA_ARCHITECTURES:-90-real} ./jobs/build.sh --cuda --tests --werror; then
    test_in build-cuda "$@"
  else
    echo "the CUDA build failed (above)" >&2
    failed=$((failed + 1))
  fi
fi

if [ "$skipped" -gt 0 ]; then
  say "Skipped"
  printf '%s' "$skipped_names" | grep .
fi
if [ $((passed + failed)) -eq 0 ]; then
  echo "no test ran" >&2
  failed=1
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]

#!/usr/bin/env bash
# Sets up, builds (warnings are errors) and runs every test. The last line counts ctest's entries:
# "N passed, N failed, N skipped". Arguments go to ctest, e.g. `tests/run.sh -L unit` or `tests/run.sh -R softmax`.
# With --sanitize first, everything is built with AddressSanitizer (leaks included) and UndefinedBehaviorSanitizer, in
# build-sanitize.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
. jobs/common.sh

build=build options=()
if [ "${1:-}" = --sanitize ]; then
  build=build-sanitize options=(--sanitize)
  shift
fi
if ! ./jobs/build.sh --tests --werror ${options[@]+"${options[@]}"}; then
  echo "the build failed, so no test ran" >&2
  echo "0 passed, 1 failed, 0 skipped"
  exit 1
fi

say "Testing"
report=$PWD/$build/tests.xml
rm -f "$report"
ctest --test-dir "$build" --output-on-failure --timeout 600 -j "$(core_count)" --output-junit "$report" "$@"
status=$?

# ctest's own report counts what it skipped; what could not be started counts as failed.
count() { grep -c "$1" "$report" 2>/dev/null; true; }
passed=$(count '<testcase .*status="run"')
skipped=$(count '<skipped message="SKIP_')
failed=$(($(count '<testcase ') - passed - skipped))
if [ "$skipped" -gt 0 ]; then
  say "Skipped"
  grep -B 1 '<skipped message="SKIP_' "$report" | sed -n 's/.*<testcase name="\([^"]*\)".*/   \1/p'
fi
if [ $((passed + failed)) -eq 0 ]; then
  echo "no test ran" >&2
  failed=1
fi
if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then failed=1; fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]

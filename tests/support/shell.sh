# shellcheck shell=bash
# Sourced by the tests written in shell: a temporary scratch folder, and checks that print what was expected.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

skip() { echo "skipped: $*"; exit 77; }

# expect_status N COMMAND...: runs COMMAND, expects exit status N, and writes its output to $scratch/output.
expect_status() {
  local expected=$1 status=0
  shift
  "$@" >"$scratch/output" 2>&1 || status=$?
  [ "$status" = "$expected" ] && return 0
  echo "FAILED: exit status $status instead of $expected: $*"
  cat "$scratch/output"
  exit 1
}
# expect_text TEXT [FILE]: expects TEXT in the last output, or in FILE.
expect_text() {
  grep -qF -- "$1" "${2:-$scratch/output}" && return 0
  echo "FAILED: no \"$1\" in:"
  cat "${2:-$scratch/output}"
  exit 1
}
expect() { "$@" || { echo "FAILED: $*"; exit 1; }; }

# shellcheck shell=bash
# Sourced by the tests written in shell: a scratch folder that goes away, and checks that say what was expected.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

skip() { echo "skipped: $*"; exit 77; }

# expect_status N COMMAND...: what COMMAND prints goes to $scratch/output.
expect_status() {
  local expected=$1 status=0
  shift
  "$@" >"$scratch/output" 2>&1 || status=$?
  [ "$status" = "$expected" ] && return 0
  echo "FAILED: exit status $status instead of $expected: $*"
  cat "$scratch/output"
  exit 1
}
# expect_text TEXT [FILE]: the last output, or FILE, holds TEXT.
expect_text() {
  grep -qF -- "$1" "${2:-$scratch/output}" && return 0
  echo "FAILED: no \"$1\" in:"
  cat "${2:-$scratch/output}"
  exit 1
}
expect() { "$@" || { echo "FAILED: $*"; exit 1; }; }

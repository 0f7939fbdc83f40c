#!/usr/bin/env bash
# What lies at the top is fixed: a new file belongs in one of the folders, a log or a result in none.
set -euo pipefail
. "$(dirname "$0")/../support/shell.sh"
cd "$BERT_HPC_SOURCE"
command -v git >/dev/null && git rev-parse --is-inside-work-tree >/dev/null 2>&1 || skip "this is no git checkout"
strangers=$(git ls-files | cut -d/ -f1 | sort -u | grep -vE '^\.' |
  grep -vxE 'CMakeLists.txt|src|include|input|jobs|postprocess|tests|modulefiles|README.md|LICENSE|CHANGELOG.md' || true)
if [ -n "$strangers" ]; then
  echo "FAILED: these do not belong at the top:"
  echo "$strangers"
  exit 1
fi

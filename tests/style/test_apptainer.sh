#!/usr/bin/env bash
# Checks jobs/bert_hpc.def without Apptainer: header, sections, shell syntax, the files it copies. The test does not build the
# image: that needs Apptainer and a registry of images.
set -euo pipefail
. "$(dirname "$0")/../support/shell.sh"
cd "$BERT_HPC_SOURCE"
definition=jobs/bert_hpc.def

# section STAGE NAME: the lines of a section.
section() {
  awk -v stage="$1" -v name="$2" '
    /^Bootstrap:/ { now = ""; inside = 0 }
    /^Stage:/ { now = $2 }
    /^%/ { inside = (now == stage && $1 == "%" name); next }
    inside { print }' "$definition"
}
expect [ "$(grep -c '^Bootstrap: ' $definition)" = 2 ]
expect [ "$(grep -c '^From: ' $definition)" = 2 ]
strangers=$(grep -vE '^(#|%| |$)' $definition | grep -vE '^(Bootstrap|From|Stage): [a-z:]+$' || true)
expect [ -z "$strangers" ]
strangers=$(grep -oE '^%.*' $definition | grep -vxE '%(files|files from build|post|environment|runscript|test|labels|help)' || true)
expect [ -z "$strangers" ]

for section in "build post" "final post" "final environment" "final runscript" "final test"; do
  read -r stage name <<<"$section"
  section "$stage" "$name" >"$scratch/script"
  expect [ -s "$scratch/script" ]
  expect_status 0 sh -n "$scratch/script"
done

# The build stage copies whatever jobs/build.sh --prefix installs from.
section build files | grep . >"$scratch/files"
while read -r from to; do
  expect [ -e "$from" ]
  expect [ "$to" = /src/ ]
done <"$scratch/files"
for needed in CMakeLists.txt README.md LICENSE CHANGELOG.md src include input jobs postprocess modulefiles; do expect grep -qE "^ *$needed " "$scratch/files"; done
# The final stage takes what the build stage made.
prefix=$(section build post | sed -n 's/.*--prefix \([^ ]*\).*/\1/p')
expect grep -q "$prefix " <(section final files)
expect grep -q "$prefix/bin" <(section final environment)
echo "not built: that takes Apptainer and a registry"

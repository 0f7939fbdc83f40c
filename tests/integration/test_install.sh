#!/usr/bin/env bash
# The installed tree is complete, names no folder of the build and runs after it was moved.
set -euo pipefail
. "$(dirname "$0")/../support/shell.sh"
[ -x "$BERT_HPC_BUILD/bert_hpc" ] || skip "bert_hpc is not built"

expect_status 0 cmake --install "$BERT_HPC_BUILD" --prefix "$scratch/first"
mv "$scratch/first" "$scratch/moved here"
root="$scratch/moved here"
cd "$scratch"
for program in bert_hpc bert_hpc_prep; do
  expect_status 0 env -i PATH="$root/bin:/usr/bin:/bin" "$program" --version
  expect_text "$program"
  named=$(env -i PATH="$root/bin:/usr/bin:/bin" "$program" --help | grep -o 'share/[^ ]*\.toml')
  expect [ -f "$root/$named" ]
done
for folder in input jobs postprocess; do expect [ -d "$root/share/bert_hpc/$folder" ]; done
expect_status 2 "$root/share/bert_hpc/jobs/build.sh"
expect_text "installed bert_hpc"

# test_modules.sh loads the modulefiles with the real tools.
version=$(basename "$(ls "$root"/modulefiles/bert_hpc/*.lua)" .lua)
expect grep -q '^#%Module' "$root/modulefiles/bert_hpc/$version"

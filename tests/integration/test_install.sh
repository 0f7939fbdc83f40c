#!/usr/bin/env bash
# The installed tree is complete, with its manuals, names no folder of the build and runs after it was moved.
set -euo pipefail
. "$(dirname "$0")/../support/shell.sh"
[ -x "$BERT_HPC_BUILD/bert_hpc" ] || skip "bert_hpc is not built"

expect_status 0 cmake --install "$BERT_HPC_BUILD" --prefix "$scratch/first"
mv "$scratch/first" "$scratch/moved here"
root="$scratch/moved here"
cd "$scratch"
version=$(basename "$(ls "$root"/modulefiles/bert_hpc/*.lua)" .lua)
for program in bert_hpc bert_hpc_prep; do
  expect_status 0 env -i PATH="$root/bin:/usr/bin:/bin" "$program" --version
  for fact in "$program $version (source revision" "build         " "compiler      " "MPI           " "HDF5          "; do
    expect_text "$fact"
  done
  expect_status 0 env -i PATH="$root/bin:/usr/bin:/bin" "$program" --help
  for path in README.md input jobs; do
    expect_text "$root/share/bert_hpc/$path"
    expect [ -e "$root/share/bert_hpc/$path" ]
  done
  expect_status 0 env -i PATH="$root/bin:/usr/bin:/bin" "$program" --example
  expect cmp "$scratch/output" "$root/share/bert_hpc/input/example_$program.toml"
done
expect_status 0 env -i PATH="$root/bin:/usr/bin:/bin" bert_hpc_score --version
expect_text "bert_hpc_score $version (source revision"
expect_status 0 env -i PATH="$root/bin:/usr/bin:/bin" bert_hpc_score --help
expect_text "$root/share/bert_hpc/input/README.md"
for file in README.md LICENSE CHANGELOG.md jobs/README.md; do expect [ -f "$root/share/bert_hpc/$file" ]; done
for folder in input jobs postprocess; do expect [ -d "$root/share/bert_hpc/$folder" ]; done
expect_status 2 "$root/share/bert_hpc/jobs/build.sh"
expect_text "installed bert_hpc"

# Links between the manuals work here as in the checkout.
expect_status 0 python3 "$BERT_HPC_SOURCE/tests/support/check_links.py" "$root/share/bert_hpc"
cat "$scratch/output"
# test_modules.sh loads the modulefiles with the real tools.
expect grep -q '^#%Module' "$root/modulefiles/bert_hpc/$version"

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
done
for folder in input jobs postprocess; do expect [ -d "$root/share/bert_hpc/$folder" ]; done
expect_status 2 "$root/share/bert_hpc/jobs/build.sh"
expect_text "installed bert_hpc"

# Modulefiles find the tree from their own place. Tcl's is run by Tcl itself, the commands of modules printing.
version=$(basename "$(ls "$root"/modulefiles/bert_hpc/*.lua)" .lua)
module="$root/modulefiles/bert_hpc/$version"
expect grep -q '^#%Module' "$module"
if command -v tclsh >/dev/null; then
  cat >"$scratch/load.tcl" <<'TCL'
foreach command {module-whatis conflict} { proc $command args {} }
proc setenv {name value} { puts "$name=$value" }
proc prepend-path {name value} { puts "$name+=$value" }
set ModulesCurrentModulefile [lindex $argv 0]
source [lindex $argv 0]
TCL
  expect_status 0 tclsh "$scratch/load.tcl" "$module"
  expect_text "BERT_HPC_ROOT=$root"
  expect_text "PATH+=$root/bin"
fi
if command -v lua5.4 >/dev/null || command -v lua >/dev/null; then
  cat >"$scratch/load.lua" <<'LUA'
function whatis() end
help, conflict = whatis, whatis
function pathJoin(...) return table.concat({...}, "/") end
function myFileName() return arg[1] end
function setenv(name, value) print(name .. "=" .. value) end
function prepend_path(name, value) print(name .. "+=" .. value) end
dofile(arg[1])
LUA
  expect_status 0 "$(command -v lua5.4 || command -v lua)" "$scratch/load.lua" "$module.lua"
  expect_text "BERT_HPC_ROOT=$root"
fi

#!/usr/bin/env bash
# The modulefiles of an install under the real tools, Lmod and environment-modules: load, help, whatis, unload, a second
# version, the other kind (a program for GPUs), a tree that was moved, and modulefiles that were copied into a site's own folder.
set -euo pipefail
. "$(dirname "$0")/../support/shell.sh"
. "$BERT_HPC_SOURCE/jobs/common.sh"
[ -x "$BERT_HPC_BUILD/bert_hpc" ] || skip "bert_hpc is not built"
bash=$(command -v bash)

expect_status 0 cmake --install "$BERT_HPC_BUILD" --prefix "$scratch/first tree"
root="$scratch/moved tree"
mv "$scratch/first tree" "$root"
version=$(basename "$root"/modulefiles/bert_hpc/*.lua .lua)
# A later version and the program for GPUs in trees of their own, and copies of the modulefiles outside of any tree. Those of a
# CUDA build differ in the folder's name and the prefix.
mkdir -p "$scratch"/{later,cuda}/bin "$scratch/later/modulefiles/bert_hpc" "$scratch/cuda/modulefiles/bert_hpc-cuda" \
  "$scratch"/site/bert_hpc{,-cuda}
for tree in later cuda; do
  printf '#!/bin/sh\necho %s\n' $tree >"$scratch/$tree/bin/bert_hpc"
  chmod +x "$scratch/$tree/bin/bert_hpc"
done
for suffix in '' .lua; do
  original=$root/modulefiles/bert_hpc/$version$suffix
  cp "$original" "$scratch/later/modulefiles/bert_hpc/99.0$suffix"
  cp "$original" "$scratch/cuda/modulefiles/bert_hpc-cuda/$version$suffix"
  cp "$original" "$scratch/site/bert_hpc/$version$suffix"
  sed "s#$scratch/first tree#$scratch/cuda#" "$original" >"$scratch/site/bert_hpc-cuda/$version$suffix"
done

# in_shell INIT SCRIPT: SCRIPT in a fresh shell that has the command `module` and none of our own programs on PATH.
in_shell() {
  env -i HOME="$scratch" PATH=/usr/bin:/bin LANG=C.UTF-8 MODULES="$root/modulefiles" LATER="$scratch/later/modulefiles" \
    CUDA="$scratch/cuda/modulefiles" SITE="$scratch/site" VERSION="$version" PYTHON="$(bert_hpc_python)" LMOD_PAGER=none MODULES_PAGER= \
    "$bash" -c '. "$1" >/dev/null && set -e && eval "$2"' _ "$1" "$2"
}

try() { # try NAME INIT
  local name=$1 init=$2
  echo "$name: $init"
  expect_status 0 in_shell "$init" 'module --version 2>&1'
  grep -iE 'modules.*[0-9]\.' "$scratch/output"

  expect_status 0 in_shell "$init" 'module use "$MODULES"; module avail 2>&1'
  expect_text "bert_hpc/$version"
  # One file serves each tool: the other one is not a second version.
  expect [ "$(grep -o 'bert_hpc/[^ ]*' "$scratch/output" | wc -l)" = 1 ]

  expect_status 0 in_shell "$init" 'module use "$MODULES"; module load bert_hpc
    bert_hpc --version; bert_hpc_prep --version; echo "root=$BERT_HPC_ROOT"; module list 2>&1
    [ -f "$BERT_HPC_ROOT/share/bert_hpc/input/quickstart.toml" ]
    if "$PYTHON" -c "import h5py, matplotlib" 2>/dev/null; then
      "$PYTHON" "$BERT_HPC_ROOT/share/bert_hpc/postprocess/report.py" --help
    fi'
  expect_text "bert_hpc $version"
  expect_text "root=$root"
  expect_text "bert_hpc/$version"

  # Unloading leaves the environment as it was (but for the tools' own bookkeeping), also when something was put before.
  expect_status 0 in_shell "$init" 'module use "$MODULES"; before=$(env | grep -E "^(PATH|BERT_HPC_ROOT)=")
    module load bert_hpc/$VERSION; [ "$(env | grep -E "^(PATH|BERT_HPC_ROOT)=")" != "$before" ]
    module unload bert_hpc; after=$(env | grep -E "^(PATH|BERT_HPC_ROOT)="); [ "$after" = "$before" ]
    module load bert_hpc; PATH=/opt/bin:$PATH; module unload bert_hpc; [ "$PATH" = "/opt/bin:${before#PATH=}" ]'

  expect_status 0 in_shell "$init" 'module use "$MODULES"; module whatis bert_hpc 2>&1'
  expect_text "trains BERT-class models with MPI"
  expect_status 0 in_shell "$init" 'module use "$MODULES"; module help bert_hpc 2>&1'
  expect_text "srun bert_hpc INPUT.toml"
  expect_text "sbatch $root/share/bert_hpc/jobs/train.slurm INPUT.toml"
  expect_text "Manual:            $root/share/bert_hpc/README.md"
  expect [ -f "$root/share/bert_hpc/README.md" ]
  expect grep -qE 'Built for [A-Za-z][A-Za-z ]* v?[0-9]+\.[0-9].* \(/' "$scratch/output"  # name, version, mpiexec

  # Two versions: the newer, used last, is the default; never are both loaded. Lmod swaps them, environment-modules refuses.
  expect_status 0 in_shell "$init" 'module use "$MODULES"; module use "$LATER"; module load bert_hpc; bert_hpc'
  expect_text later
  expect_status 0 in_shell "$init" 'module use "$MODULES"; module use "$LATER"; module load bert_hpc/$VERSION
    module load bert_hpc/99.0 || true; echo "loaded=$LOADEDMODULES"; echo "$PATH" | tr : "\n" | grep -c -e tree/bin -e later/bin'
  expect grep -qxE "loaded=bert_hpc/($version|99.0)" "$scratch/output"
  expect grep -qx 1 "$scratch/output"

  # The program for GPUs has a name of its own, by which it alone is meant; never are both loaded.
  expect_status 0 in_shell "$init" 'module use "$CUDA"; module load bert_hpc-cuda; bert_hpc; echo "root=$BERT_HPC_ROOT"'
  expect_text "root=$scratch/cuda"
  expect grep -qx cuda "$scratch/output"
  expect_status 0 in_shell "$init" 'module use "$SITE"; module load bert_hpc; echo "loaded=$LOADEDMODULES"'
  expect grep -qx "loaded=bert_hpc/$version" "$scratch/output"
  expect_status 0 in_shell "$init" 'module use "$SITE"; module load bert_hpc-cuda; bert_hpc
    module load bert_hpc || true; echo "$PATH" | tr : "\n" | grep -c -e tree/bin -e cuda/bin'
  expect grep -qx cuda "$scratch/output"
  expect grep -qx 1 "$scratch/output"

  # A copied modulefile serves the tree of the install, wherever it lies now being unknown to it.
  expect_status 0 in_shell "$init" 'module use "$SITE"; module load bert_hpc; echo "root=$BERT_HPC_ROOT"'
  expect_text "root=$scratch/first tree"
}

tried=0
for files in "Lmod|${LMOD_PKG:-/usr/share/lmod/lmod}/init/bash|$bert_hpc_cache/lmod/init.bash" \
  "environment-modules|/usr/share/modules/init/bash|$bert_hpc_cache/modules/init.bash"; do
  IFS='|' read -r name system cached <<<"$files"
  for init in "$system" "$cached"; do
    if [ -f "$init" ]; then
      try "$name" "$init"
      tried=$((tried + 1))
      break
    fi
  done
done
[ $tried -gt 0 ] || skip "neither Lmod nor environment-modules is here (jobs/setup.sh --tests unpacks both where there is apt)"
if [ $tried = 1 ]; then skip "one of Lmod and environment-modules is not here (the other passed)"; fi

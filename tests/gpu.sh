#!/usr/bin/env bash
# Packs the CUDA build's tests into a folder that runs on a machine with a GPU where nothing of this is installed: our
# programs, those of the CPU build for comparison, Open MPI and HDF5. CUDA's libraries and NCCL are those of that machine,
# found through LD_LIBRARY_PATH, in /usr/local/cuda or among the packages of its python3.
#   tests/gpu.sh [FOLDER]      packs build-cuda into FOLDER (default build-cuda/bundle) and FOLDER.tar.xz
#   FOLDER/run.sh              runs every test there; the last line is "N passed, N failed, N skipped"
#   FOLDER/bench.sh            measures attention there, fused beside portable kernels, and training steps beside PyTorch's,
#                              as it comes and compiled, with the python3 that has torch and transformers; figures also go
#                              to FOLDER/training.json
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. jobs/common.sh

build=$PWD/build-cuda bundle=${1:-$PWD/build-cuda/bundle}
[ -x "$build/bert_hpc" ] || fail 2 "there is no CUDA build in build-cuda: run jobs/build.sh --cuda --tests first"
[ -x build/bert_hpc ] || fail 2 "there is no CPU build in build, which resumed runs are compared with: run jobs/build.sh first"
rm -rf "$bundle"
mkdir -p "$bundle/bin" "$bundle/cpu" "$bundle/lib" "$bundle/tests/integration"
cmake --build "$build" --target bench_attention bench_training >"$build/bench.log" 2>&1 || fail 1 "the benchmarks do not build; see $build/bench.log"
programs=("$build"/bert_hpc "$build"/bert_hpc_prep "$build"/tests/test_* "$build"/tests/bench_attention "$build"/tests/bench_training)
for program in "${programs[@]}"; do
  if [ -f "$program" ] && [ -x "$program" ]; then strip -o "$bundle/bin/$(basename "$program")" "$program"; fi
done
for program in bert_hpc bert_hpc_prep; do strip -o "$bundle/cpu/$program" "build/$program"; done
cp -r tests/golden "$bundle/tests/"
cp tests/integration/{program,test_gpu}.py "$bundle/tests/integration/"
mkdir -p "$bundle/bench"
cp tests/bench/{run,cases,bench_training}.py "$bundle/bench/"

# What the programs load from here, but for the C library and what comes with CUDA, NCCL and the driver.
needed() {
  for file in "$bundle"/{bin,cpu}/* "$@"; do ldd "$file" 2>/dev/null || true; done | sed -n 's/.* => \(\/[^ ]*\).*/\1/p' | sort -u |
    grep -Ev '/(libc|libm|libdl|librt|libpthread|libresolv|ld-linux[^/]*)\.so|/lib(cudart|cublas|cublasLt|nccl|cuda|nvidia)[^/]*\.so' || true
}
mpirun=$(command -v mpirun || true)
# One host needs neither network cards' plugins nor those for parallel files, which would bring many libraries.
plugins=$(find /usr/lib /usr/local/lib -path '*openmpi*' -name 'mca_*.so' 2>/dev/null |
  grep -vE 'ucx|ofi|psm|openib|usnic|portals|_ud_|uct|/mca_(fs|io|fbtl|fcoll|sharedfp|osc|mtl)_|plm_(slurm|tm)|ras_(slurm|tm)' || true)
extra=()
if [ -n "$mpirun" ]; then extra+=("$(readlink -f "$mpirun")" "$(command -v orted || readlink -f "$mpirun")"); fi
for library in $(needed "${extra[@]}" $plugins); do cp -L "$library" "$bundle/lib/"; done
if [ -n "$mpirun" ]; then
  cp -L "$(readlink -f "$mpirun")" "$bundle/bin/mpirun"
  have orted && cp -L "$(command -v orted)" "$bundle/bin/orted"
  mkdir -p "$bundle/lib/openmpi" "$bundle/share"
  for plugin in $plugins; do cp -L "$plugin" "$bundle/lib/openmpi/"; done
  if [ -d /usr/share/openmpi ]; then cp -r /usr/share/openmpi "$bundle/share/"; fi
fi

cat >"$bundle/libraries.sh" <<'LIBRARIES'
# Where programs of this folder find their libraries: here, where the caller says, with the toolkit, with Python's packages.
packages=$(python3 -c 'import glob, site
folders = [*site.getsitepackages(), site.getusersitepackages()]
print(":".join(found for folder in folders for found in sorted(glob.glob(folder + "/nvidia/*/lib"))))' 2>/dev/null || true)
libraries=$PWD/lib:${LD_LIBRARY_PATH:-}:/usr/local/cuda/lib64:$packages
LIBRARIES
cat >"$bundle/run.sh" <<'RUN'
#!/usr/bin/env bash
# Runs the tests of this folder on the GPU at hand.
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
. ./libraries.sh
export LD_LIBRARY_PATH=$libraries PATH=$PWD/bin:$PATH OPAL_PREFIX=$PWD
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMP_PROC_BIND=false CUDA_LAUNCH_BLOCKING=1
export BERT_HPC_TESTS_DIRECTORY=$PWD/tests OMPI_MCA_mca_base_component_path=$PWD/lib/openmpi
passed=0 failed=0 skipped=0
attempt() {
  local name=$1 status=0
  shift
  timeout 600 "$@" >"$name.log" 2>&1 || status=$?
  case $status in
    0) passed=$((passed + 1)) ;;
    4) skipped=$((skipped + 1)); echo "skipped: $name: $(grep -m 1 skipped "$name.log")" ;;
    *) failed=$((failed + 1)); echo "FAILED ($status): $name"; tail -n 40 "$name.log" ;;
  esac
}
for program in bin/test_*; do
  name=$(basename "$program")
  case $name in
    # A launch that blocks would keep a rank from sending what lets another one go on: these tests ask by themselves.
    test_mpi_*) for ranks in 1 2; do attempt "$name-$ranks" env -u CUDA_LAUNCH_BLOCKING mpirun -n $ranks "$program"; done ;;
    *) attempt "$name" "$program" ;;
  esac
done
attempt integration_gpu env BERT_HPC_BUILD="$PWD/bin" BERT_HPC_CPU_BUILD="$PWD/cpu" python3 tests/integration/test_gpu.py
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ] && [ $passed -gt 0 ]
RUN
cat >"$bundle/bench.sh" <<'BENCH'
#!/usr/bin/env bash
# Measures on the GPU at hand: attention with BERT-base's and BERT-large's heads, short and long ones, both types; then
# training steps. bench.sh attention or bench.sh training: only these. What follows goes to run.py, e.g. --case base_squad.
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
. ./libraries.sh
what=${1:-all}
[ $# = 0 ] || shift
export OMP_PROC_BIND=false OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OPAL_PREFIX=$PWD
export OMPI_MCA_mca_base_component_path=$PWD/lib/openmpi
if [ "$what" != training ]; then
  for arguments in "bf16 12 64" "bf16 16 64" "fp16 16 64" "bf16 8 128" "bf16 12 32"; do
    LD_LIBRARY_PATH=$libraries bin/bench_attention $arguments
  done
fi
if [ "$what" != attention ]; then
  # Python's own libraries must not be ours.
  printf '#!/bin/sh\nexec env LD_LIBRARY_PATH="%s" "%s/bin/bench_training" "$@"\n' "$libraries" "$PWD" >bin/bench_training.sh
  chmod +x bin/bench_training.sh
  python3 bench/run.py --bench bin/bench_training.sh --device cuda --precision bf16 --compile --rounds 2 --threads 1 \
    --json training.json "$@"
fi
BENCH
chmod +x "$bundle/run.sh" "$bundle/bench.sh"
tar -C "$(dirname "$bundle")" -cf - "$(basename "$bundle")" | xz -T0 -2 >"$bundle.tar.xz"
note "$bundle: $(du -sm "$bundle" | cut -f1) MiB; $bundle.tar.xz: $(du -sm "$bundle.tar.xz" | cut -f1) MiB"

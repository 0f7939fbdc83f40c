#!/usr/bin/env bash
# A bundle of two small libraries is made, checked against damage, and built where no network can be reached. The rest of a
# bundle (MPI, HDF5, …) is built by the same commands but takes long.
set -euo pipefail
. "$(dirname "$0")/../support/shell.sh"
cd "$BERT_HPC_SOURCE"
. jobs/common.sh
use_cache_prefix
export BERT_HPC_PYTHON=${BERT_HPC_TEST_PYTHON:-$(bert_hpc_python)}

expect_status 2 ./jobs/bundle.sh --no-such-option
expect_status 2 ./jobs/bundle.sh --only "kokkos4" "$scratch/none.tar"
expect_status 2 env BERT_HPC_CACHE="$scratch/cache" ./jobs/setup.sh --bundle "$scratch/none.tar"
expect_status 2 env BERT_HPC_CACHE="$scratch/cache" ./jobs/setup.sh --from-bundle utf8proc
have apt-get || skip "there is no apt to take sources from"
./jobs/bundle.sh --only "utf8proc tomlplusplus" "$scratch/bundle.tar" >"$scratch/output" 2>&1 ||
  { cat "$scratch/output"; skip "the archive of sources cannot be reached"; }
expect [ ! -e "$scratch/bundle.tar.part" ]

# Without a network where the system permits it: a separate network namespace has only loopback, which Open MPI needs.
alone=()
if unshare --net ip link set lo up 2>/dev/null; then
  # shellcheck disable=SC2016
  alone=(unshare --net sh -c 'ip link set lo up; exec "$@"' _)
else
  echo "no namespace: the network is not cut off"
fi
expect_status 0 "${alone[@]}" env BERT_HPC_CACHE="$scratch/cache" ./jobs/setup.sh --bundle "$scratch/bundle.tar" \
  --from-bundle "utf8proc toml++"
expect_text "building utf8proc-"
prefix=$scratch/cache/prefix
expect_status 0 env CMAKE_PREFIX_PATH="$prefix:$CMAKE_PREFIX_PATH" cmake -S . -B "$scratch/probe" -DBERT_HPC_PROBE=ON \
  -DBERT_HPC_TESTS=OFF
expect grep -q "utf8proc_LIBRARY:FILEPATH=$prefix/lib/libutf8proc.a" "$scratch/probe/CMakeCache.txt"
expect grep -q "tomlplusplus_DIR:PATH=$prefix/" "$scratch/probe/CMakeCache.txt"
printf '#include <toml++/toml.h>\nint main() { return toml::parse("a = 7")["a"].value_or(0) - 7; }\n' >"$scratch/use.cpp"
expect_status 0 "${BERT_HPC_CXX:-c++}" -std=c++20 -I"$prefix/include" "$scratch/use.cpp" -o "$scratch/use"
expect_status 0 "$scratch/use"

# An incomplete bundle is reported and not used.
mkdir "$scratch/copy"
tar -C "$scratch/copy" -xf "$scratch/bundle.tar"
file=$(echo "$scratch"/copy/bert_hpc-bundle/utf8proc-*)
truncate -s -1 "$file"
expect_status 4 env BERT_HPC_CACHE="$scratch/other" ./jobs/setup.sh --bundle "$scratch/copy/bert_hpc-bundle"
expect_text "utf8proc-"
expect_text "damaged"
rm "$scratch/copy/bert_hpc-bundle/SHA256SUMS"
expect_status 4 env BERT_HPC_CACHE="$scratch/other" ./jobs/setup.sh --bundle "$scratch/copy/bert_hpc-bundle"
expect_text "no bundle"
expect [ ! -e "$scratch/other" ]

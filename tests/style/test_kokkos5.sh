#!/usr/bin/env bash
# Every file that includes Kokkos also compiles against the headers of Kokkos 5.x, whatever version it was built with.
cd "$BERT_HPC_SOURCE" || exit 1
. jobs/common.sh
core=$(find "$bert_hpc_cache/kokkos5" -name Kokkos_Core.hpp -print -quit 2>/dev/null)
if [ -z "$core" ]; then
  echo "skipped: the headers of Kokkos 5 are not in the cache (jobs/setup.sh --tests gets them from Debian's sid)"
  exit 77
fi
config=$(find "$bert_hpc_cache/kokkos5" -name KokkosCore_config.h -print -quit)
# Files see Kokkos directly or through a header of ours that includes it.
pattern='#include <Kokkos_'
while read -r header; do pattern+="|#include \".*$(basename "$header")\""; done < <(grep -rlE '#include <Kokkos_' src include --include='*.hpp')
# Those for CUDA's compiler alone are no C++ for this one.
mapfile -t files < <(grep -rlE "$pattern" src --include='*.cpp' | grep -v /cuda/ | sort)
[ ${#files[@]} -gt 0 ] || { echo "no file includes Kokkos"; exit 1; }
# The same flags as the kernel files of the build, with the other Kokkos in front. A compiler cache keeps objects, not the
# result of -fsyntax-only.
failed=0
objects=$BERT_HPC_BUILD/kokkos5
mkdir -p "$objects"
launcher=$(command -v ccache)
check() {
  local object=${4//\//_}
  $1 "${BERT_HPC_CXX:-c++}" -c -O0 -std=c++20 -fopenmp -Wall -Wextra -Wno-unknown-pragmas -march=x86-64-v3 -Iinclude \
    -isystem "$(dirname "$2")" -isystem "$(dirname "$3")" -o "$5/$object.o" "$4" || { echo "$4 does not compile against Kokkos 5"; return 1; }
}
export -f check
[ "$(uname -m)" = x86_64 ] || { echo "skipped: the headers in the cache are for x86-64"; exit 77; }
printf '%s\n' "${files[@]}" | xargs -P "$(core_count)" -I FILE bash -c 'check "$@"' _ "$launcher" "$core" "$config" FILE "$objects" || failed=1
echo "${#files[@]} files against $core"
exit $failed

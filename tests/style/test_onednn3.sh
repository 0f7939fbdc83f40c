#!/usr/bin/env bash
# The file that includes oneDNN also compiles against the headers of oneDNN 3.x, whatever version it was built with.
cd "$BERT_HPC_SOURCE" || exit 1
. jobs/common.sh
header=$(find "$bert_hpc_cache/onednn3" -name dnnl.h -print -quit 2>/dev/null)
if [ -z "$header" ]; then
  echo "skipped: the headers of oneDNN 3 are not in the cache (jobs/setup.sh --tests gets them from Debian's sid)"
  exit 77
fi
mapfile -t files < <(grep -rl '#include <dnnl' src --include='*.cpp')
[ ${#files[@]} -gt 0 ] || { echo "no file includes oneDNN"; exit 1; }
for file in "${files[@]}"; do
  "${BERT_HPC_CXX:-c++}" -fsyntax-only -std=c++20 -Wall -Wextra -Iinclude -Isrc/ops -DBERT_HPC_HAVE_ONEDNN=1 \
    -isystem "$(dirname "$header")" "$file" || { echo "$file does not compile against oneDNN 3"; exit 1; }
done
grep -rhE 'define DNNL_VERSION_(MAJOR|MINOR)' "$(dirname "$header")" "$(dirname "$header")/oneapi" | sort -u

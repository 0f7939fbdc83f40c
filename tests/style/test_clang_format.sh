#!/usr/bin/env bash
# Every C++ file is formatted as .clang-format says. Versions of clang-format differ in details: only 14 is asked.
cd "$BERT_HPC_SOURCE" || exit 1
. jobs/common.sh
for tool in clang-format-14 clang-format; do
  if command -v $tool >/dev/null && $tool --version | grep -q 'version 14\.'; then
    report=$(find include src tests -name '*.hpp' -o -name '*.cpp' | sort |
      xargs -P "$(core_count)" -n 100 $tool --dry-run --Werror 2>&1) && exit 0
    printf '%s\n' "$report" | head -n 30
    echo "run: $tool -i $(printf '%s\n' "$report" | sed -n 's/^\([^ :]*\):[0-9].*error: .*/\1/p' | sort -u | paste -sd' ')"
    exit 1
  fi
done
echo "skipped: needs clang-format 14"
exit 77

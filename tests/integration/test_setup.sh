#!/usr/bin/env bash
# The set-up scripts: what --check reports and that it changes nothing, options that do not exist, and the glosses.
set -euo pipefail
. "$(dirname "$0")/../support/shell.sh"
cd "$BERT_HPC_SOURCE"
. jobs/common.sh

# With the cache's prefix everything is found; --check writes nothing, not even an empty cache.
use_cache_prefix
expect_status 0 env BERT_HPC_CACHE="$scratch/none" ./jobs/setup.sh --check --tests
expect [ ! -e "$scratch/none" ]

# Without it, and where the system has no Kokkos of its own, Kokkos is named with every way to give it.
if env -u CMAKE_PREFIX_PATH BERT_HPC_CACHE="$scratch/none" ./jobs/setup.sh --check >"$scratch/output" 2>&1; then
  echo "this system has all libraries itself: the message about missing ones is not tested"
else
  expect_text "missing: Kokkos (required)"
  expect_text "Spack: kokkos+openmp"
  expect_text "export CMAKE_PREFIX_PATH="
  expect_status 2 env -u CMAKE_PREFIX_PATH BERT_HPC_CACHE="$scratch/none" ./jobs/setup.sh --check
fi

# Without HOME the cache lies in the user's own folder all the same, never where others can put programs first.
home=$(getent passwd "$(id -u)" | cut -d: -f6)
for unknown in "-u HOME" HOME=; do
  # shellcheck disable=SC2016,SC2086
  expect_status 0 env -u BERT_HPC_CACHE -u XDG_CACHE_HOME $unknown bash -euc '. jobs/common.sh; echo "$bert_hpc_cache $(full_path "~/x")"'
  expect [ "$(cat "$scratch/output")" = "$home/.cache/bert_hpc $home/x" ]
done

expect_status 2 ./jobs/setup.sh --no-such-option
expect_status 2 ./jobs/build.sh --no-such-option
if [ ! -x /usr/bin/nvcc ]; then
  expect_status 2 env PATH=/usr/bin:/bin BERT_HPC_CACHE="$scratch/cache" ./jobs/build.sh --cuda
  expect_text "no nvcc"
fi
# An nvcc that fails is shown with its own words.
if have nvcc; then
  expect_status 1 env NVCC_APPEND_FLAGS=--no-such-flag ./jobs/setup.sh --check --cuda
  expect_text "Unknown option '--no-such-flag'"
fi
expect_status 2 ./jobs/quickstart.sh --no-such-option

# Glosses: the category by the number of the lexicographer file, punctuation and tabs gone, the licence left out.
mkdir "$scratch/wordnet"
for part in noun verb adj adv; do
  printf '  1 licence | not a gloss\n' >"$scratch/wordnet/data.$part"
done
printf '00001740 03 n 01 entity 0 001 ~ 00001930 n 0000 | that which is\tperceived  \n' >>"$scratch/wordnet/data.noun"
printf '00001740 29 v 01 breathe 0 001 @ 1 v 0000 01 + 02 00 | draw air; "I breathe"  \n' >>"$scratch/wordnet/data.verb"
printf '00001740 44 a 01 able 0 000 | last of the categories  \n' >>"$scratch/wordnet/data.adj"
expect_status 0 env WORDNET_DIR="$scratch/wordnet" ./jobs/wordnet_glosses.sh --help
expect_text "usage: jobs/wordnet_glosses.sh OUTPUT.tsv"
expect_status 2 env WORDNET_DIR="$scratch/wordnet" ./jobs/wordnet_glosses.sh --output
expect [ ! -e ./--help ] && expect [ ! -e ./--output ]
expect_status 0 env WORDNET_DIR="$scratch/wordnet" ./jobs/wordnet_glosses.sh "$scratch/new/glosses.tsv"
printf 'text\tlabel\nthat which is perceived\tnoun.Tops\ndraw air I breathe\tverb.body\nlast of the categories\tadj.ppl\n' \
  >"$scratch/expected"
expect diff "$scratch/expected" "$scratch/new/glosses.tsv"
printf 'not a line of WordNet\n' >>"$scratch/wordnet/data.adv"
expect_status 3 env WORDNET_DIR="$scratch/wordnet" ./jobs/wordnet_glosses.sh "$scratch/other.tsv"
expect_text "unexpected line"
expect [ ! -e "$scratch/other.tsv" ]

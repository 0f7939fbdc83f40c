#!/usr/bin/env bash
# Writes the 117,659 glosses of WordNet 3.0 as a table "text<TAB>label"; the label is the gloss's lexicographer
# category. This gives real English text with 45 classes without a download from a hub. WordNet comes from Debian's
# package wordnet-base (permissive licence, see its copyright file), installed or unpacked into the cache.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$bert_hpc_jobs/archive.sh"

usage="usage: jobs/wordnet_glosses.sh OUTPUT.tsv   (WORDNET_DIR=folder of data.noun etc. if it is elsewhere)"
case ${1-} in
  -h | --help) printf '%s\n' "$usage"; exit 0 ;;
  -*) fail 2 "unknown option $1; $usage" ;;
esac
[ $# = 1 ] || fail 2 "$usage"
output=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

files=(data.noun data.verb data.adj data.adv)
complete() { for file in "${files[@]}"; do [ -s "$1/$file" ] || return 1; done; }
find_wordnet() {
  local folder
  for folder in ${WORDNET_DIR:+"$WORDNET_DIR"} /usr/share/wordnet "$bert_hpc_cache/wordnet/usr/share/wordnet"; do
    if complete "$folder"; then printf '%s\n' "$folder"; return 0; fi
  done
  return 1
}
if ! find_wordnet >"$scratch/folder"; then
  say "WordNet: unpacking Debian's wordnet-base into the cache (the text of the quick start)"
  fetch_deb wordnet-base "$(codename)" "$bert_hpc_cache/wordnet" || true
  find_wordnet >"$scratch/folder" ||
    fail 3 "cannot find WordNet's database or fetch it with apt: set WORDNET_DIR to a folder with ${files[*]} (version 3.0)"
fi
folder=$(cat "$scratch/folder")

# Format of a line (wndb(5)): offset, number of the lexicographer file, …, '|', gloss. Names: lexnames(5).
# Keeps only words: punctuation (mostly quotes around examples) carries no information about the category.
mkdir -p "$(dirname "$output")"
(cd "$folder" && cat "${files[@]}") | LC_ALL=C awk '
  BEGIN {
    count = split("adj.all adj.pert adv.all noun.Tops noun.act noun.animal noun.artifact noun.attribute noun.body " \
      "noun.cognition noun.communication noun.event noun.feeling noun.food noun.group noun.location noun.motive " \
      "noun.object noun.person noun.phenomenon noun.plant noun.possession noun.process noun.quantity noun.relation " \
      "noun.shape noun.state noun.substance noun.time verb.body verb.change verb.cognition verb.communication " \
      "verb.competition verb.consumption verb.contact verb.creation verb.emotion verb.motion verb.perception " \
      "verb.possession verb.social verb.stative verb.weather adj.ppl", names, " ")
    print "text\tlabel"
  }
  /^  / { next }  # the licence at the beginning of each file
  {
    separator = index($0, " | ")
    if (separator == 0 || $2 + 1 > count) { print "unexpected line: " $0 > "/dev/stderr"; exit 1 }
    gloss = substr($0, separator + 3)
    gsub(/[^A-Za-z0-9\200-\377]+/, " ", gloss)
    gsub(/^ | $/, "", gloss)
    print gloss "\t" names[$2 + 1]
  }' >"$scratch/glosses" || fail 3 "$folder does not have WordNet's database in the expected format (above)"
mv "$scratch/glosses" "$output"
note "$output: $(($(wc -l <"$output") - 1)) glosses"

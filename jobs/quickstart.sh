#!/usr/bin/env bash
# From a fresh machine to a trained BERT: builds bert_hpc (in a checkout), turns WordNet's glosses into shards, trains a small
# BERT from scratch on two ranks, evaluates it on the test split and makes tables and pictures. Finished steps are skipped.
#   --fresh       repeat all steps     --no-install  do not use apt or sudo
# Works in a checkout and from an installed tree (there in the current folder).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

fresh=0 build_options=()
for option; do
  case $option in
    --fresh) fresh=1 ;;
    --no-install) build_options+=(--no-install) ;;
    -h | --help) sed -n '2,5s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) fail 2 "unknown option $option; there are --fresh and --no-install" ;;
  esac
done

if [ -n "$bert_hpc_source" ]; then
  cd "$bert_hpc_source"
  ./jobs/build.sh ${build_options[@]+"${build_options[@]}"}
  bin=$PWD/build/install/bin
else
  bin=$(cd "$bert_hpc_share/../../bin" && pwd)
fi
on_path=$(command -v bert_hpc || true)
export PATH="$bin:$PATH"
use_mpi_environment
ranks=${BERT_HPC_RANKS:-2}
cores=$(core_count)
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((cores > ranks ? cores / ranks : 1))}
here=quickstart
mkdir -p $here

# step MARK NAME COMMAND...: runs COMMAND unless MARK shows that an earlier run finished it.
step() {
  local mark=$here/.$1 name=$2 begin
  shift 2
  if [ -f "$mark" ] && [ $fresh = 0 ]; then
    say "$name: already done (--fresh repeats it)"
    return 0
  fi
  say "$name"
  begin=$SECONDS
  "$@" || fail $? "this step failed: $*"
  note "$name: $((SECONDS - begin)) s"
  : >"$mark"
}
overwrite=()
if [ $fresh = 1 ]; then overwrite=(--overwrite); fi

step glosses "Text: WordNet's glosses and their categories" "$bert_hpc_jobs/wordnet_glosses.sh" $here/wordnet.tsv
step shards "Shards: vocabulary, tokens and splits" bert_hpc_prep "$bert_hpc_share/input/quickstart_prep.toml"
step train "Training: $ranks ranks of $OMP_NUM_THREADS threads" \
  mpirun -n "$ranks" bert_hpc "$bert_hpc_share/input/quickstart.toml" ${overwrite[@]+"${overwrite[@]}"}
step test "Test: evaluation on held-out sequences" \
  mpirun -n "$ranks" bert_hpc "$bert_hpc_share/input/quickstart_test.toml" ${overwrite[@]+"${overwrite[@]}"}
python=$(bert_hpc_python)
if [ -n "$python" ] && "$python" -c 'import h5py, matplotlib' 2>/dev/null; then
  step report "Report: tables and pictures" "$python" "$bert_hpc_share/postprocess/report.py" $here/run --output $here/report
  pictures="  $here/report           tables (summary.md, *.csv) and pictures (*.png, *.pdf)"
else
  say "Report: skipped, because no Python with h5py, numpy and matplotlib was found (set BERT_HPC_PYTHON to one)"
  pictures=
fi

cat <<END

Done. In $PWD:
  $here/run/model        the trained model, a Hugging Face folder: AutoModelForSequenceClassification.from_pretrained reads it
  $here/run/metrics.h5   loss, learning rate, evaluations, timings of the training; $here/test/metrics.h5 of the test
  $here/run/log.txt      what was printed
END
if [ -n "$pictures" ]; then printf '%s\n' "$pictures"; fi
echo "Try next:"
if [ "$on_path" != "$bin/bert_hpc" ]; then echo "  export PATH=\"$bin:\$PATH\""; fi
cat <<END
  mpirun -n $ranks bert_hpc $bert_hpc_share/input/quickstart.toml --set run.directory='"$here/wide"' --set model.hidden_size=256
  bert_hpc $bert_hpc_share/input/quickstart.toml --validate --ranks 4     layout and memory on 4 ranks, without computing
  edit input/quickstart_prep.toml for your own CSV, TSV or JSONL, and input/quickstart.toml for your own model
END

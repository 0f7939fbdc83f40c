#!/usr/bin/env bash
# jobs/train.slurm under Slurms of several kinds, whose commands are pretended: which plugin it asks srun for.
# tests/slurm runs it under a real one.
set -euo pipefail
. "$(dirname "$0")/../support/shell.sh"

mkdir "$scratch/tools"
printf '#!/bin/sh\necho "bert_hpc 1"\necho "  $MPI"\n' >"$scratch/tools/bert_hpc"
# Like the real commands, these print line by line: they end when their reader closes the pipe.
cat >"$scratch/tools/scontrol" <<'SCONTROL'
#!/bin/sh
echo "MpiDefault              = $MPI_DEFAULT"
sleep 0.1
echo "MpiParams               = (null)"
SCONTROL
cat >"$scratch/tools/srun" <<'SRUN'
#!/bin/sh
if [ "$1" = --mpi=list ]; then
  printf 'MPI plugin types are...\n\tnone\n\tpmi2\n'
  [ "$HAS_PMIX" = 0 ] || printf '\tpmix\nspecific pmix plugin versions available: pmix_v4\n'
  sleep 0.1
  printf '\topenmpi\n'
  exit 0
fi
echo "started with plugin '$SLURM_MPI_TYPE': $*"
SRUN
chmod +x "$scratch"/tools/*

# job STATUS MPI MPI_DEFAULT HAS_PMIX PLUGIN: PLUGIN is the value of srun's --mpi, '' for the site's default.
job() {
  expect_status "$1" env PATH="$scratch/tools:$PATH" MPI="$2" MPI_DEFAULT="$3" HAS_PMIX="$4" \
    bash "$BERT_HPC_SOURCE/jobs/train.slurm" input.toml
  if [ "$1" = 0 ]; then expect_text "started with plugin '$5': --cpus-per-task=1 bert_hpc input.toml"; fi
}
unset "${!SLURM_@}"
job 0 "Open MPI 5.0.8" pmix 1 ''
job 0 "Open MPI 5.0.8" pmix_v4 1 ''
job 0 "Open MPI 5.0.8" none 1 pmix
job 0 "Open MPI 4.1.4" pmi2 1 pmix
job 0 "MPICH 4.2" pmi2 1 ''
job 0 "CRAY MPICH" cray_shasta 0 ''
job 2 "Open MPI 5.0.8" none 0
expect_text "srun has no pmix here"
export SLURM_MPI_TYPE=pmi2
job 0 "Open MPI 4.1.4" none 0 pmi2

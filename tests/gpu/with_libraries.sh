#!/usr/bin/env bash
# with_libraries.sh COMMAND…: runs a program of this bundle with its libraries: those beside it, where the caller says,
# CUDA's toolkit, and the packages of the machine's Python. Python itself is not run with them: it has its own.
bundle=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit 1
packages=$(python3 -c 'import glob, site
folders = [*site.getsitepackages(), site.getusersitepackages()]
print(":".join(found for folder in folders for found in sorted(glob.glob(folder + "/nvidia/*/lib"))))' 2>/dev/null || true)
export LD_LIBRARY_PATH=$bundle/lib:${LD_LIBRARY_PATH:-}:/usr/local/cuda/lib64:$packages
export PATH=$bundle/bin:$PATH OPAL_PREFIX=$bundle OMPI_MCA_mca_base_component_path=$bundle/lib/openmpi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
# PMIx would print that plug-ins of this machine are not its own, and that it lacks the one that compresses messages.
export PMIX_MCA_pcompress_base_silence_warning=1 PMIX_MCA_mca_base_component_show_load_errors=0
export OMPI_MCA_hwloc_base_binding_policy=none OMP_PROC_BIND=false BERT_HPC_TESTS_DIRECTORY=$bundle/tests
exec "$@"

#!/usr/bin/env bash
# jobs/build.sh on a small project instead of bert_hpc: the effect of another compiler or module on a build folder,
# read-only sources, prefixes, folders that forbid programs (noexec), sudo, and the number of parallel compilers.
set -euo pipefail
. "$(dirname "$0")/../support/shell.sh"

mkdir -p "$scratch"/{source,tools,home}
cp -r "$BERT_HPC_SOURCE/jobs" "$scratch/source/jobs"
cd "$scratch/source"
cat >CMakeLists.txt <<'PROJECT'
cmake_minimum_required(VERSION 3.22)
project(small LANGUAGES CXX)
option(BERT_HPC_WERROR "Warnings are errors" OFF)
set(BERT_HPC_ARCH native CACHE STRING "-march")
if(MISSING_TOML)
  message(STATUS "missing: toml++|optional|input files|libtomlplusplus-dev|tomlplusplus")
endif()
if(BERT_HPC_PROBE)
  return()
endif()
if(BERT_HPC_CUDA)
  add_compile_definitions(KIND="libcudart.so.13")
else()
  add_compile_definitions(KIND="cpu")
endif()
add_executable(bert_hpc main.cpp)
install(TARGETS bert_hpc RUNTIME DESTINATION bin)
PROJECT
printf '#include <cstdio>\nint main() { std::puts(KIND); }\n' >main.cpp
export BERT_HPC_CACHE="$scratch/cache" BERT_HPC_PYTHON=true HOME="$scratch/home"
unset CMAKE_BUILD_PARALLEL_LEVEL
build() { expect_status "$1" ./jobs/build.sh --no-install "${@:2}"; }

# A second run does nothing. Another compiler or other modules make the script configure and build again. Chosen options stay,
# and bert_hpc's own module does not count as a change.
build 0 --werror
expect_status 0 cmake -DBERT_HPC_ARCH=armv9-a build
expect [ "$(build/install/bin/bert_hpc)" = cpu ]
touch "$scratch/before"
BERT_HPC_ROOT=$PWD/build/install PYENV_ROOT=/pyenv LOADEDMODULES=bert_hpc/0.1.0 build 0
expect [ ! build/bert_hpc -nt "$scratch/before" ]
expect [ ! build/CMakeFiles/cmake.verify_globs -nt "$scratch/before" ]
printf '#!/bin/sh\nexec c++ "$@"\n' >"$scratch/tools/other_c++"
chmod +x "$scratch/tools/other_c++"
export CXX="$scratch/tools/other_c++"
build 0
expect_text "Reconfiguring, because these changed: CXX"
expect grep -q "CMAKE_CXX_COMPILER:.*other_c++" build/CMakeCache.txt
expect [ build/bert_hpc -nt "$scratch/before" ]
expect grep -q 'BERT_HPC_WERROR:BOOL=ON' build/CMakeCache.txt
expect grep -q 'BERT_HPC_ARCH:STRING=armv9-a' build/CMakeCache.txt
LOADEDMODULES=openmpi/5 build 0
expect_text "these changed: LOADEDMODULES"
LOADEDMODULES=openmpi/5:bert_hpc-cuda/0.1.0 build 0
expect [ "$(grep -c Reconfiguring "$scratch/output")" = 0 ]
unset CXX

# A prefix with "~" after "=", and a build folder elsewhere: the build writes no file into the read-only sources.
touch "$scratch/before"
chmod -R a-w .
build 0 --build "$scratch/built" --prefix=~/installed
chmod -R u+w .
expect [ -x "$HOME/installed/bin/bert_hpc" ]
expect [ -z "$(find . -newer "$scratch/before")" ]
# A name that is missing or empty is no folder.
for option in prefix build bundle; do
  expect_status 2 ./jobs/build.sh --$option
  expect_status 2 ./jobs/build.sh --$option=
  expect_text "error: --$option needs a value"
done

# A program for GPUs does not replace one for CPUs, and one for CPUs does not replace one for GPUs.
printf '#!/bin/sh\necho "release 13.0"\n' >"$scratch/tools/nvcc"
chmod +x "$scratch/tools/nvcc"
PATH=$scratch/tools:$PATH build 2 --cuda --prefix "$HOME/installed"
expect_text "has a bert_hpc for CPUs"
PATH=$scratch/tools:$PATH build 0 --cuda --prefix "$HOME/installed_cuda"
build 2 --prefix "$HOME/installed_cuda"
expect_text "has a bert_hpc for GPUs"
expect [ "$("$HOME/installed_cuda/bin/bert_hpc")" = libcudart.so.13 ]

# All users may read an installation, also where the umask of the installing user forbids this.
(umask 077 && build 0 --prefix "$scratch/new/deep")
expect [ -z "$(find "$scratch/new" ! -perm 755)" ]
(umask 002 && build 0 --prefix "$scratch/shared/deep")
expect [ "$(stat -c %a "$scratch/shared/deep/bin")" = 775 ]

# The script announces a sudo command before it runs it, and runs none with --no-install.
sed -i 's/if(MISSING_TOML)/if(TRUE)/' CMakeLists.txt
for tool in apt-get dpkg-query apt-cache; do printf '#!/bin/sh\n' >"$scratch/tools/$tool"; done
printf '#!/bin/sh\necho 1000\n' >"$scratch/tools/id"
printf '#!/bin/sh\necho "sudo $*" >>%s\n' "$scratch/asked" >"$scratch/tools/sudo"
chmod +x "$scratch"/tools/*
PATH=$scratch/tools:$PATH build 0
expect [ ! -e "$scratch/asked" ]
expect_status 0 env PATH="$scratch/tools:$PATH" ./jobs/build.sh
expect grep -q 'apt-get.* install .*libtomlplusplus-dev' "$scratch/asked"
expect_text "about to install these packages with sudo (--no-install avoids this): libtomlplusplus-dev"
expect_text "missing: toml++ (optional) - input files"

# /tmp forbids programs (noexec): the script uses the cache instead. The test's mount needs root and namespaces.
mkdir "$scratch/noexec"
if unshare --mount mount -t tmpfs -o noexec tmpfs "$scratch/noexec" 2>/dev/null; then
  expect_status 0 unshare --mount sh -c 'mount -t tmpfs -o noexec tmpfs "$1" && TMPDIR=$1 ./jobs/build.sh --no-install' _ "$scratch/noexec"
  expect_text "programs cannot run in $scratch/noexec (noexec): using the cache instead"
  expect [ -z "$(find "$BERT_HPC_CACHE" -name 'scratch.*')" ]
fi

# The number of parallel compilers: the given number, else by cores and memory; cgroups of either version may limit both.
. "$BERT_HPC_SOURCE/jobs/common.sh"
expect [ "$(CMAKE_BUILD_PARALLEL_LEVEL=7 build_jobs)" = 7 ]
groups=$scratch/cgroups
mkdir -p "$groups/user/me" "$groups/memory/job/step"
bert_hpc_cgroups=$groups bert_hpc_own_cgroups=$scratch/own bert_hpc_meminfo=$scratch/meminfo
printf 'MemTotal:       16384000 kB\nMemAvailable:    8192000 kB\n' >"$bert_hpc_meminfo"
printf '4:memory:/job/step\n0::/user/me\n' >"$bert_hpc_own_cgroups"
nproc() { echo 64; }
env() { while [ "$1" != nproc ]; do shift; done; "$@"; }
expect [ "$(memory_limit)" = 8000 ]
expect [ "$(build_jobs)" = 7 ]
expect [ "$(core_count)" = 64 ]
echo 'max 100000' >"$groups/cpu.max"
echo '350000 100000' >"$groups/user/cpu.max"
expect [ "$(core_count)" = 3 ]
echo '50000 100000' >"$groups/user/me/cpu.max"
expect [ "$(core_count)" = 1 ]
rm "$groups"/user/cpu.max "$groups"/user/me/cpu.max
echo max >"$groups/memory.max"
expect [ "$(memory_limit)" = 8000 ]
echo $((2200 * 1048576)) >"$groups/user/memory.max"
expect [ "$(memory_limit)" = 2200 ]
expect [ "$(build_jobs)" = 2 ]
echo $((500 * 1048576)) >"$groups/memory/job/memory.limit_in_bytes"
expect [ "$(memory_limit)" = 500 ]
expect [ "$(build_jobs)" = 1 ]

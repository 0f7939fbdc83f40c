#!/usr/bin/env bash
# The check names a parallel HDF5 that was built with another MPI. It accepts one that was built with our MPI, a serial
# HDF5 and a static HDF5. The libraries are empty files with the true names.
set -euo pipefail
. "$(dirname "$0")/../support/shell.sh"
readelf=$(command -v readelf) || skip "no readelf"

cd "$scratch"
echo 'int nothing;' >nothing.c
for name in libmpi.so.40 libmpich.so.12; do cc -shared -fPIC -Wl,-soname,$name -o $name nothing.c; done
library() { cc -shared -fPIC -Wl,--no-as-needed -o "lib$1.so" nothing.c "${@:2}"; }
library hdf5_ours ./libmpi.so.40
library hdf5_other ./libmpich.so.12
library hdf5_serial -lm
: >libhdf5.a
cat >ask.cmake <<'ASK'
cmake_minimum_required(VERSION 3.22)
include("$ENV{BERT_HPC_SOURCE}/src/cmake/bert_hpc_find.cmake")
bert_hpc_other_mpi(said "${HDF5};/usr/lib/libm.so" "${MPI};/usr/lib/libm.so")
message("said: ${said}")
ASK
ask() { expect_status 0 cmake -DCMAKE_READELF="$readelf" -DHDF5="$scratch/$1" -DMPI="$scratch/$2" -P ask.cmake; }
for serves in libhdf5_ours.so libhdf5_serial.so libhdf5.a; do
  ask $serves libmpi.so.40
  expect grep -qx 'said: ' output
done
ask libhdf5_other.so libmpich.so.12
expect grep -qx 'said: ' output
ask libhdf5_other.so libmpi.so.40
expect_text "built with the MPI of libmpich.so.12, and ours is libmpi.so.40"
ask libhdf5_ours.so libmpich.so.12
expect_text "built with the MPI of libmpi.so.40, and ours is libmpich.so.12"

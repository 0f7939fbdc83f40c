// The one word a function needs to run inside kernels on every device, without including Kokkos in shared headers.
#pragma once

#if defined(BERT_HPC_DEVICE)
// Given on the command line for files compiled once per instruction set, which keep such functions to themselves.
#elif defined(__CUDACC__)
#define BERT_HPC_DEVICE __host__ __device__ inline
#else
#define BERT_HPC_DEVICE inline
#endif

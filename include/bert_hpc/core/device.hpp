// BERT_HPC_DEVICE: marks a function as callable inside kernels on every device, without including Kokkos in shared
// headers.
#pragma once

#if defined(BERT_HPC_DEVICE)
// Set on the command line for files that are compiled once per instruction set, where such functions must stay local.
#elif defined(__CUDACC__)
#define BERT_HPC_DEVICE __host__ __device__ inline
#else
#define BERT_HPC_DEVICE inline
#endif

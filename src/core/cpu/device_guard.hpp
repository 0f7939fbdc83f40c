// The guard of device memory on CPU builds: see core/device_memory.hpp. Device memory and the host memory that kernels
// reach are two ranges of addresses of anonymous files. Device memory is mapped twice: where kernels use it, which is
// out of reach unless one runs, and at a second place for MPI, which moves data whenever it gets its turn. Telling an
// address apart is then a comparison, and opening or closing device memory is one system call.
//
// On a GPU a copy that was started may read the host's memory until somebody has waited for it. Here it is done at
// once, but that memory stays read-only for as long: whoever writes it too early crashes.
#pragma once

#include <cstddef>

#include <cstdint>

#include "bert_hpc/core/buffer.hpp"

namespace bert_hpc::core::guard {

void* allocate(std::size_t bytes, MemoryKind kind);
void free(void* pointer, std::size_t bytes, MemoryKind kind) noexcept;

// All three do nothing unless device memory is guarded.
void begin_copy(const void* host, std::size_t bytes);
std::uint64_t copies_started();
/// The host has waited for the first so many copies.
void end_copies(std::uint64_t count);

}  // namespace bert_hpc::core::guard

// The guard of device memory on CPU builds; see core/device_memory.hpp. Device memory and kernel-accessible host memory
// are two address ranges of anonymous files. Device memory is mapped twice: at the address that kernels use, which is
// inaccessible unless a kernel runs, and at a second address for MPI, which may transfer data at any time. Classifying
// an address is one comparison, and opening or closing device memory is one system call.
//
// On a GPU, a started copy may read host memory until the host has waited for it. Here the copy is immediate, but its
// source stays read-only for that time, so that writing it too early crashes.
#pragma once

#include <cstddef>

#include <cstdint>

#include "bert_hpc/core/buffer.hpp"

namespace bert_hpc::core::guard {

void* allocate(std::size_t bytes, MemoryKind kind);
void free(void* pointer, std::size_t bytes, MemoryKind kind) noexcept;

// These functions do nothing unless device memory is guarded.
void begin_copy(const void* host, std::size_t bytes);
std::uint64_t copies_started();
/// The host has waited for the first `count` copies.
void end_copies(std::uint64_t count);

}  // namespace bert_hpc::core::guard

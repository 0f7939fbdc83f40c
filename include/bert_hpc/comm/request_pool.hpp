// Requests without allocation: a communicator constructs its requests in memory that it reuses, so no step after the
// first allocates. T is a Request whose destructor waits. For one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"

namespace bert_hpc::comm {

template <class T>
class RequestPool {
 public:
  RequestPool() = default;
  RequestPool(const RequestPool&) = delete;  // requests in progress point here
  RequestPool& operator=(const RequestPool&) = delete;

  /// Constructs a T from these arguments. The pool must outlive it.
  template <class... Arguments>
  RequestHandle make(Arguments&&... arguments) {
    if (free_.empty()) grow();
    void* const memory = free_.back();
    Pooled* const request = new (memory) Pooled(*this, std::forward<Arguments>(arguments)...);
    free_.pop_back();  // only now: the constructor may throw
    return RequestHandle(request);
  }

  std::size_t capacity() const { return slots_.size(); }  ///< the largest number of requests in progress at once so far

 private:
  class Pooled final : public T {
   public:
    template <class... Arguments>
    explicit Pooled(RequestPool& pool, Arguments&&... arguments)
        : T(std::forward<Arguments>(arguments)...), pool_(pool) {}

   protected:
    void release() noexcept override {
      RequestPool& pool = pool_;
      this->~Pooled();
      pool.free_.push_back(this);  // within the capacity reserved by grow()
    }

   private:
    RequestPool& pool_;
  };
  struct alignas(Pooled) Slot {
    std::byte bytes[sizeof(Pooled)];
  };

  void grow() {
    slots_.push_back(std::make_unique<Slot>());
    free_.reserve(slots_.size());
    free_.push_back(slots_.back().get());
  }

  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<void*> free_;
};

}  // namespace bert_hpc::comm

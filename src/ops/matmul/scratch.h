#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace drydock::ops::kernels {

/// Uninitialised memory, aligned to 64 bytes, for one step of one call. Small blocks are kept by the thread for its
/// next call, so that a program of many small products does not ask the system for memory each time.
template <class T>
class Scratch {
 public:
  explicit Scratch(int64_t count) {
    const size_t bytes = (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64 + 64;
    Kept& kept = this_thread();
    if (kept.memory != nullptr && !kept.taken && kept.bytes >= bytes) {
      memory_ = kept.memory;
    } else {
      memory_ = std::aligned_alloc(64, bytes);
      if (memory_ == nullptr) throw std::bad_alloc();
      if (bytes > kMostKept || kept.taken) return;
      std::free(kept.memory);
      kept.memory = memory_;
      kept.bytes = bytes;
    }
    kept.taken = true;
    is_kept_ = true;
  }
  ~Scratch() {
    if (is_kept_) {
      this_thread().taken = false;
    } else {
      std::free(memory_);
    }
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T* data() { return static_cast<T*>(memory_); }

 private:
  static constexpr size_t kMostKept = size_t{8} << 20;
  // One block per thread and element type.
  struct Kept {
    void* memory = nullptr;
    size_t bytes = 0;
    bool taken = false;
    ~Kept() { std::free(memory); }
  };
  static Kept& this_thread() {
    thread_local Kept kept;
    return kept;
  }

  void* memory_ = nullptr;
  bool is_kept_ = false;
};

}  // namespace drydock::ops::kernels

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace drydock::trace {

/// Reads memory of this process that may be unmapped or change meanwhile (frames of another thread): a bad address is
/// a false, never a fault. Keeps the pages it has read, so one object gives one look at a stack. It is 64 KiB
/// large.
class ProcessMemory {
 public:
  /// Forgets the pages read so far.
  void restart() noexcept;
  bool read(uintptr_t address, void* to, size_t bytes) noexcept;
  template <class T>
  bool load(uintptr_t address, T& value) noexcept {
    return read(address, &value, sizeof(value));
  }

 private:
  static constexpr size_t kPageBytes = 4096;
  static constexpr size_t kPages = 16;
  struct Page {
    uintptr_t number = 0;
    bool is_valid = false;
    std::array<std::byte, kPageBytes> bytes;
  };
  const Page* page_of(uintptr_t number) noexcept;

  std::array<Page, kPages> pages_{};
};

}  // namespace drydock::trace

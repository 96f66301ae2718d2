#pragma once

#include <cstdint>
#include <map>
#include <vector>

// What a caching allocator gets its memory from.

namespace drydock::replay {

class Driver {
 public:
  virtual ~Driver() = default;
  /// False if there is no room.
  virtual bool allocate(uint64_t bytes, uint64_t& address) = 0;
  virtual void free(uint64_t address, uint64_t bytes) = 0;
  /// Address space only.
  virtual bool reserve(uint64_t bytes, uint64_t& address) = 0;
  virtual void unreserve(uint64_t address, uint64_t bytes) = 0;
  /// Physical memory for [address, address + bytes), in pieces of `piece_bytes`: all of it, or none and false.
  virtual bool map(uint64_t address, uint64_t bytes, uint64_t piece_bytes) = 0;
  virtual void unmap(uint64_t address, uint64_t bytes, uint64_t piece_bytes) = 0;
  /// Bytes of the device, as aclrtGetMemInfo reports them.
  virtual uint64_t total_bytes() const = 0;
  /// Address of the memory that goes back next, of a driver that knows the future; 0 where it does not.
  virtual uint64_t given_back_next() const { return 0; }
};

/// A device of which `external_bytes` are not the allocator's. Addresses are the lowest that are free, as Drydock's own
/// device gives them; memory is counted in pages of 2 MiB.
class SimulatedDriver final : public Driver {
 public:
  SimulatedDriver(uint64_t total_bytes, uint64_t external_bytes);

  bool allocate(uint64_t bytes, uint64_t& address) override;
  void free(uint64_t address, uint64_t bytes) override;
  bool reserve(uint64_t bytes, uint64_t& address) override;
  void unreserve(uint64_t address, uint64_t bytes) override;
  bool map(uint64_t address, uint64_t bytes, uint64_t piece_bytes) override;
  void unmap(uint64_t address, uint64_t bytes, uint64_t piece_bytes) override;
  uint64_t total_bytes() const override { return total_bytes_; }

  uint64_t calls() const { return calls_; }
  /// As if what was called since there had been `before` calls had been called `times` more.
  void repeat_calls(uint64_t before, uint64_t times) { calls_ += (calls_ - before) * times; }
  /// All that decides its answers, appended.
  void describe(std::vector<uint64_t>& words) const;
  uint64_t free_bytes() const { return total_bytes_ - used_bytes_; }

 private:
  using Ranges = std::map<uint64_t, uint64_t>;  // begin -> end of what is free
  static uint64_t take(Ranges& ranges, uint64_t bytes, uint64_t alignment);
  static void give_back(Ranges& ranges, uint64_t begin, uint64_t bytes);

  uint64_t total_bytes_;
  uint64_t used_bytes_;
  uint64_t calls_ = 0;
  Ranges heap_;
  Ranges reservations_;
};

}  // namespace drydock::replay

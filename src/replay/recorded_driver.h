#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "replay/driver.h"
#include "replay/events.h"

namespace drydock::replay {

/// Answers as the recorded driver did, as long as it is asked the same in the same order. The first question that
/// differs is kept, and from then on every answer is a refusal.
class RecordedDriver final : public Driver {
 public:
  RecordedDriver(uint64_t total_bytes, Source source) : total_bytes_(total_bytes), source_(source) {}

  /// What the driver did between two events of blocks.
  void add(const Event& event) { calls_.push_back(&event); }
  bool is_used_up() const { return next_ == calls_.size(); }
  const Event* peek() const { return is_used_up() ? nullptr : calls_[next_]; }
  /// Leaves a call out.
  void skip() { ++next_; }
  /// Forgets what is used up.
  void clear() {
    calls_.clear();
    next_ = 0;
  }
  bool differs() const { return !difference_.empty(); }
  const std::string& difference() const { return difference_; }
  /// Where it differs; null: after the last call of those that were recorded.
  const Event* difference_event() const { return difference_event_; }
  uint64_t equal_calls() const { return equal_calls_; }

  bool allocate(uint64_t bytes, uint64_t& address) override;
  void free(uint64_t address, uint64_t bytes) override;
  bool reserve(uint64_t bytes, uint64_t& address) override;
  void unreserve(uint64_t address, uint64_t bytes) override;
  bool map(uint64_t address, uint64_t bytes, uint64_t piece_bytes) override;
  void unmap(uint64_t address, uint64_t bytes, uint64_t piece_bytes) override;
  uint64_t given_back_next() const override;
  uint64_t total_bytes() const override { return total_bytes_; }

 private:
  bool refuses();
  void differ(std::string what);
  bool is_size(uint64_t recorded, uint64_t wanted) const;
  bool take_range(EventKind kind, uint64_t address, uint64_t bytes);
  std::string recorded() const;

  uint64_t total_bytes_;
  Source source_;
  std::vector<const Event*> calls_;
  size_t next_ = 0;
  uint64_t equal_calls_ = 0;
  std::string difference_;
  const Event* difference_event_ = nullptr;
};

/// "allocated 2097152 bytes at 0x..." for a driver's call.
std::string describe_call(const Event& event);

}  // namespace drydock::replay

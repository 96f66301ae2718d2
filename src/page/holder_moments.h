#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace drydock::page {

/// What one holder had at one moment.
struct Held {
  uint32_t holder = 0;
  uint64_t bytes = 0;
  uint64_t blocks = 0;
};

/// Who held what at one moment.
struct Moment {
  uint64_t event = 0;
  uint64_t time_ns = 0;
  uint32_t step = 0;         ///< counted from 1
  uint64_t total_bytes = 0;  ///< over the holders that count
  std::vector<Held> held;    ///< by holder, without those that held nothing
};

/// All that one holder did.
struct HolderTotals {
  bool counts = true;  ///< false for holders that are no part of the total
  uint32_t group = 0;
  uint64_t allocations = 0;
  uint64_t allocated_bytes = 0;  ///< of all allocations together
  uint64_t live_bytes = 0;
  uint64_t live_blocks = 0;
  double byte_seconds = 0;  ///< live bytes, summed over time
  uint64_t changed_ns = 0;  ///< time up to which byte_seconds is complete
};

/// Several holders together, such as all of one line.
struct GroupTotals {
  uint64_t live_bytes = 0;
  uint64_t peak_bytes = 0;  ///< most that they held at one time
};

/// Who holds how much, at a bounded number of moments over a run: time is cut into windows, and of each window (or of
/// each group of neighbouring ones, where there are many) the highest moment is kept. The highest of all is always
/// among them.
///
/// What was held at a window's highest moment is not copied when that moment comes, for it may not be the highest: a
/// holder's bytes are saved when the holder first changes after it (each new height has a number, each holder the
/// number of the height it has saved).
class HolderMoments {
 public:
  explicit HolderMoments(size_t most_moments = 200) : most_moments_(most_moments) {}

  /// A new group, numbered from 0.
  uint32_t add_group();
  /// A new holder, numbered from 0, of a group that there is.
  uint32_t add_holder(bool counts, uint32_t group);
  void add(uint32_t holder, uint64_t bytes, uint64_t event, uint64_t time_ns);
  void remove(uint32_t holder, uint64_t bytes, uint64_t time_ns);
  /// A block changes hands: the total stays.
  void move(uint32_t from, uint32_t to, uint64_t bytes, uint64_t time_ns);
  /// Ends a window, as far as there was anything in it.
  void close_window(uint32_t step, uint64_t event, uint64_t time_ns);
  /// Ends the last window and brings byte_seconds up to date.
  void finish(uint32_t step, uint64_t event, uint64_t time_ns);

  uint64_t total_bytes() const { return total_; }
  const std::vector<HolderTotals>& holders() const { return holders_; }
  const std::vector<GroupTotals>& groups() const { return groups_; }
  /// In the order of events; complete after `finish`.
  const std::vector<Moment>& moments() const { return moments_; }
  /// What is held now.
  Moment now(uint32_t step, uint64_t event, uint64_t time_ns) const;
  /// Joins neighbouring moments until there are at most `most_moments`.
  void shrink_to(size_t most_moments);

 private:
  void changing(uint32_t holder, uint64_t time_ns);
  void take(uint32_t holder, uint64_t bytes);
  void drop(uint32_t holder, uint64_t bytes);
  void keep_best();
  void halve();

  struct Saved {
    uint64_t height = 0;  // number of the height of which the fields below are
    uint64_t bytes = 0;
    uint64_t blocks = 0;
  };

  size_t most_moments_;
  std::vector<HolderTotals> holders_;
  std::vector<GroupTotals> groups_;
  std::vector<Saved> saved_;
  uint64_t total_ = 0;
  uint64_t height_ = 0;  // number of the window's highest moment so far
  uint64_t height_bytes_ = 0;
  uint64_t height_event_ = 0;
  uint64_t height_ns_ = 0;
  bool window_changed_ = false;
  uint64_t windows_per_moment_ = 1;
  uint64_t windows_in_group_ = 0;
  Moment best_;  // of the group
  std::vector<Moment> moments_;
};

}  // namespace drydock::page

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "page/run_history.h"
#include "page/segment_view.h"

namespace drydock::page {

/// A holder as a reader sees it.
struct HolderText {
  std::string kind;   ///< "block", "workspace", "workspace in the cache", "driver memory"
  std::string block;  ///< of blocks: what they were for, as "activations"
  std::string file;
  uint32_t line = 0;  ///< 0 = unknown line
  std::string function;
  std::string module;  ///< path of the module that was running, as "model.layers.3.mlp"; empty: none

  /// "train.py:42" or "unknown line".
  std::string place() const;
};

/// One row of the table of lines.
struct LineRow {
  HolderText holder;
  uint64_t bytes_at_peak = 0;
  uint64_t blocks_at_peak = 0;
  uint64_t peak_bytes = 0;  ///< most that it held at one time
  double byte_seconds = 0;
  uint64_t allocations = 0;
  uint64_t allocated_bytes = 0;
  uint64_t bytes_at_end = 0;
};

/// What the page shows of one device of one process.
struct DevicePage {
  uint32_t process = 0;  ///< as in the ledger
  int32_t process_id = 0;
  int32_t device = 0;
  bool has_blocks = false;
  uint64_t capacity_bytes = 0;  ///< 0 = the trace does not tell
  uint64_t peak_allocated_bytes = 0;
  uint64_t peak_reserved_bytes = 0;
  uint64_t peak_workspace_bytes = 0;
  uint64_t duration_ns = 0;
  std::vector<StepMark> steps;
  std::vector<CurvePoint> curve;
  std::vector<HolderText> holders;
  std::vector<Moment> moments;
  size_t peak_moment = 0;      ///< index in `moments`
  size_t refusal_moment = 0;   ///< the same; moments.size() if the driver never refused
  std::vector<LineRow> lines;  ///< largest at the peak first
  LayoutMoment layout;
  std::vector<SegmentView> segments;
  size_t blocks_outside = 0;
};

/// `at_refusal`: show the layout of the driver's last refusal, where there was one; else that of the peak.
DevicePage make_device_page(uint32_t index, const ProcessHistory& process, const DeviceHistory& device,
                            std::string_view working_directory, bool at_refusal);

/// The device as one JSON object, for the page's scripts (fields: assets/page.js).
std::string device_json(const DevicePage& page);

}  // namespace drydock::page

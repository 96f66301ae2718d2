#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "timeline/timeline.h"
#include "trace/reader.h"

namespace drydock::exports {

/// Writes spans of a timeline in the columns and events of the vendor's profiler. Operators carry the names of the
/// aclnn calls: which kernels a call launches on a device is not known. What is not measured is "N/A".
class KernelTable {
 public:
  using Spans = std::vector<timeline::Span>;
  using CoreOf = std::function<std::string_view(trace::CallId call)>;
  KernelTable(const trace::Reader& reader, CoreOf core_of) : reader_(reader), core_of_(std::move(core_of)) {}

  /// `wall_ns`: since 1970, where the spans' clock is 0. 100004 with a sentence for each.
  Status write_summary(const Spans& spans, int64_t wall_ns, const std::filesystem::path& path) const;
  Status write_statistic(const Spans& spans, const std::filesystem::path& path) const;
  Status write_task_times(const Spans& spans, int64_t wall_ns, const std::filesystem::path& path) const;
  /// Host calls, the streams' work, arrows between them, and which time of a device was computing or free.
  Status write_timeline(const Spans& spans, int64_t wall_ns, const std::filesystem::path& path) const;

 private:
  struct Facts {
    std::string api;   // "aclnnAddmm"
    std::string type;  // "Addmm"
    std::string core;
    std::string input_shapes, input_types, input_formats;
    std::string output_shapes, output_types, output_formats;
  };
  const Facts& facts_of(trace::CallId call) const;
  std::string name_of(const timeline::Span& span) const;

  const trace::Reader& reader_;
  CoreOf core_of_;
  mutable std::map<trace::CallId, Facts> facts_;
};

}  // namespace drydock::exports

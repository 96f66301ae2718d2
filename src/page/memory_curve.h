#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace drydock::page {

/// Memory of one device after one event.
struct CurvePoint {
  uint64_t event = 0;  ///< number of the event: orders points of one time
  uint64_t time_ns = 0;
  uint64_t allocated_bytes = 0;
  uint64_t reserved_bytes = 0;
  uint64_t workspace_bytes = 0;
};

/// A curve of millions of events in a bounded number of points, made as the events come. Events are gathered in spans
/// of equal numbers of events; a span keeps its first point, its highest and lowest allocated ones and its highest
/// reserved and workspace ones, so that no maximum is lost. When there are too many spans, neighbours are joined.
class MemoryCurve {
 public:
  explicit MemoryCurve(size_t most_spans = 2800) : most_spans_(most_spans) {}

  /// Events and times must not go back.
  void add(const CurvePoint& point);
  /// Joins spans until there are at most `most_spans`.
  void shrink_to(size_t most_spans);
  /// In the order of events, without repetitions; at most five points for each span, and the last event.
  std::vector<CurvePoint> points() const;

 private:
  struct Span {
    CurvePoint first;
    CurvePoint most_allocated;
    CurvePoint least_allocated;
    CurvePoint most_reserved;
    CurvePoint most_workspace;
  };

  static void join(Span& span, const Span& later);
  void halve();

  size_t most_spans_;
  uint64_t events_per_span_ = 1;
  uint64_t events_in_last_ = 0;
  std::vector<Span> spans_;
  CurvePoint last_;
};

}  // namespace drydock::page

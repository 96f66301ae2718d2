#include "page/memory_curve.h"

#include <algorithm>

namespace drydock::page {

void MemoryCurve::join(Span& span, const Span& later) {
  if (later.most_allocated.allocated_bytes > span.most_allocated.allocated_bytes)
    span.most_allocated = later.most_allocated;
  if (later.least_allocated.allocated_bytes < span.least_allocated.allocated_bytes)
    span.least_allocated = later.least_allocated;
  if (later.most_reserved.reserved_bytes > span.most_reserved.reserved_bytes) span.most_reserved = later.most_reserved;
  if (later.most_workspace.workspace_bytes > span.most_workspace.workspace_bytes)
    span.most_workspace = later.most_workspace;
}

void MemoryCurve::halve() {
  size_t kept = 0;
  for (size_t index = 0; index < spans_.size(); index += 2) {
    Span span = spans_[index];
    if (index + 1 < spans_.size()) join(span, spans_[index + 1]);
    spans_[kept++] = span;
  }
  // Where the last two were joined, the last span has the events of a full one besides its own.
  if (spans_.size() % 2 == 0) events_in_last_ += events_per_span_;
  spans_.resize(kept);
  events_per_span_ *= 2;
}

void MemoryCurve::add(const CurvePoint& point) {
  last_ = point;
  const Span alone{point, point, point, point, point};
  if (spans_.empty() || events_in_last_ >= events_per_span_) {
    if (spans_.size() >= most_spans_) halve();
    if (spans_.empty() || events_in_last_ >= events_per_span_) {
      spans_.push_back(alone);
      events_in_last_ = 1;
      return;
    }
  }
  join(spans_.back(), alone);
  ++events_in_last_;
}

void MemoryCurve::shrink_to(size_t most_spans) {
  while (spans_.size() > std::max<size_t>(most_spans, 1)) halve();
}

std::vector<CurvePoint> MemoryCurve::points() const {
  std::vector<CurvePoint> points;
  points.reserve(spans_.size() * 5 + 1);
  for (const Span& span : spans_)
    points.insert(points.end(),
                  {span.first, span.most_allocated, span.least_allocated, span.most_reserved, span.most_workspace});
  if (!spans_.empty()) points.push_back(last_);
  std::sort(points.begin(), points.end(), [](const CurvePoint& a, const CurvePoint& b) { return a.event < b.event; });
  const auto same = [](const CurvePoint& a, const CurvePoint& b) { return a.event == b.event; };
  points.erase(std::unique(points.begin(), points.end(), same), points.end());
  return points;
}

}  // namespace drydock::page

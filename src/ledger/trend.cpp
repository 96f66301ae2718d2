#include "ledger/trend.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <optional>

namespace drydock::ledger {
namespace {

// The first step makes the optimizer's state; four intervals after it are the least that shows a direction.
constexpr size_t kWarmUp = 1;
constexpr size_t kLeastSteps = 6;
// Slopes of pairs are looked at over so many steps, evenly chosen.
constexpr size_t kMostSlopeSteps = 300;
// What grows by less than this part of the device is no growth that matters, and no tooth.
constexpr double kLeastShare = 100;
// Beyond so many times the steps seen so far nothing is foretold.
constexpr double kFarthest = 1000;

using Series = std::vector<double>;

Series series_of(const std::vector<StepEnd>& steps, const std::function<uint64_t(const StepEnd&)>& value) {
  Series series;
  for (size_t index = kWarmUp; index < steps.size(); ++index)
    series.push_back(static_cast<double>(value(steps[index])));
  return series;
}

double median_of(Series values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Theil and Sen's: single high or low steps do not bend it.
double slope_of(const Series& series) {
  const size_t stride = std::max<size_t>(1, series.size() / kMostSlopeSteps);
  Series slopes;
  for (size_t i = 0; i < series.size(); i += stride)
    for (size_t j = i + stride; j < series.size(); j += stride)
      slopes.push_back((series[j] - series[i]) / static_cast<double>(j - i));
  return median_of(std::move(slopes));
}

// Ranks with ties at their mean.
Series ranks_of(const Series& series) {
  std::vector<size_t> order(series.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return series[a] < series[b]; });
  Series ranks(series.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && series[order[end]] == series[order[begin]]) ++end;
    for (size_t place = begin; place < end; ++place) ranks[order[place]] = static_cast<double>(begin + end - 1) / 2;
    begin = end;
  }
  return ranks;
}

double correlation_of(const Series& a, const Series& b) {
  const auto count = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / count;
  const double mean_b = std::accumulate(b.begin(), b.end(), 0.0) / count;
  double products = 0, squares_a = 0, squares_b = 0;
  for (size_t index = 0; index < a.size(); ++index) {
    products += (a[index] - mean_a) * (b[index] - mean_b);
    squares_a += (a[index] - mean_a) * (a[index] - mean_a);
    squares_b += (b[index] - mean_b) * (b[index] - mean_b);
  }
  return squares_a == 0 || squares_b == 0 ? 0 : products / std::sqrt(squares_a * squares_b);
}

double rank_correlation_of(const Series& a, const Series& b) { return correlation_of(ranks_of(a), ranks_of(b)); }

// Rises from step to step, nearly always, and in the second half too: a plateau after a rise is no growth.
double steady_rise(const Series& series) {
  if (series.size() + kWarmUp < kLeastSteps || series.back() <= series.front()) return 0;
  size_t rises = 0;
  for (size_t index = 1; index < series.size(); ++index)
    if (series[index] > series[index - 1]) ++rises;
  if (rises * 10 < (series.size() - 1) * 8) return 0;
  const double rise = series.back() - series.front();
  const double second_half = series.back() - series[series.size() / 2];
  return second_half * 4 >= rise ? rise : 0;
}

// Rises on the whole, single steps aside: lengths of inputs scatter.
double scattered_rise(const Series& series) {
  if (series.size() + kWarmUp < kLeastSteps) return 0;
  Series time(series.size());
  std::iota(time.begin(), time.end(), 0.0);
  if (rank_correlation_of(series, time) < 0.8) return 0;
  const double slope = slope_of(series);
  return slope > 0 ? slope * static_cast<double>(series.size() - 1) : 0;
}

// The line that gained most over all steps, less what it lost.
trace::LineId most_gained(const std::vector<StepEnd>& steps) {
  std::map<trace::LineId, double> gains;
  for (size_t index = kWarmUp + 1; index < steps.size(); ++index) {
    gains[steps[index].rising.line] += static_cast<double>(steps[index].rising.bytes);
    gains[steps[index].falling.line] -= static_cast<double>(steps[index].falling.bytes);
  }
  const auto most =
      std::max_element(gains.begin(), gains.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == gains.end() || most->second <= 0 ? 0 : most->first;
}

// The line whose share of what a step allocates rises most from the first steps to the last.
trace::LineId most_enlarged(const std::vector<StepEnd>& steps) {
  std::map<trace::LineId, double> gains;
  const size_t half = (steps.size() - kWarmUp) / 2;
  for (size_t index = kWarmUp; index < steps.size(); ++index)
    for (const LineBytes& line : steps[index].largest)
      gains[line.line] += (index < kWarmUp + half ? -1.0 : 1.0) * static_cast<double>(line.bytes);
  const auto most =
      std::max_element(gains.begin(), gains.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == gains.end() || most->second <= 0 ? 0 : most->first;
}

struct Teeth {
  std::vector<size_t> falls;  ///< indices into the series: the value is far below the one before
  uint32_t period = 0;
  double height = 0;
};

// Falls that come at even distances, at least three of them.
std::optional<Teeth> teeth_of(const Series& series, double least_height) {
  if (series.size() < 6) return std::nullopt;
  const auto [low, high] = std::minmax_element(series.begin(), series.end());
  const double threshold = std::max(least_height, (*high - *low) / 4);
  Teeth teeth;
  Series heights;
  for (size_t index = 1; index < series.size(); ++index) {
    if (series[index - 1] - series[index] < threshold) continue;
    teeth.falls.push_back(index);
    heights.push_back(series[index - 1] - series[index]);
  }
  if (teeth.falls.size() < 3) return std::nullopt;
  Series distances;
  for (size_t index = 1; index < teeth.falls.size(); ++index)
    distances.push_back(static_cast<double>(teeth.falls[index] - teeth.falls[index - 1]));
  const double period = median_of(distances);
  if (period < 2) return std::nullopt;
  const auto is_even = [&](double distance) { return std::abs(distance - period) <= std::max(1.0, period / 5); };
  const auto even = std::count_if(distances.begin(), distances.end(), is_even);
  if (even * 10 < static_cast<ptrdiff_t>(distances.size()) * 8) return std::nullopt;
  teeth.period = static_cast<uint32_t>(period);
  teeth.height = median_of(heights);
  return teeth;
}

// What is kept at a step's end goes with the inputs of that step, not with those of all steps so far: variables that
// still hold the last batch, and no leak.
bool follows_inputs(const Series& ends, const Series& inputs) {
  if (scattered_rise(inputs) <= 0) return false;
  Series so_far(inputs.size());
  std::partial_sum(inputs.begin(), inputs.end(), so_far.begin());
  const double with_step = correlation_of(ends, inputs);
  return with_step >= 0.9 && with_step > correlation_of(ends, so_far);
}

void find_growth(const std::vector<StepEnd>& steps, uint64_t room_bytes, Trend& trend) {
  const Series ends = series_of(steps, [](const StepEnd& step) { return step.allocated_bytes; });
  const Series peaks = series_of(steps, [](const StepEnd& step) { return step.peak_allocated_bytes; });
  const Series inputs = series_of(steps, [](const StepEnd& step) { return step.input_bytes; });
  const double least = room_bytes > 0 ? static_cast<double>(room_bytes) / kLeastShare : 1;

  double slope = 0;
  // Of a saw-tooth only the low points tell.
  const std::optional<Teeth> teeth = teeth_of(ends, least);
  Series low = ends;
  if (teeth) {
    low.clear();
    for (const size_t index : teeth->falls) low.push_back(ends[index]);
  }
  if (const double grown = steady_rise(low); grown > 0 && !follows_inputs(ends, inputs)) {
    trend.growth = Growth::kLeak;
    trend.grown_bytes = static_cast<uint64_t>(grown);
    trend.growing = most_gained(steps);
    slope = teeth ? slope_of(low) / teeth->period : slope_of(ends);
  } else if (const double larger = scattered_rise(peaks); larger >= least) {
    const bool explained = scattered_rise(inputs) > 0 && rank_correlation_of(inputs, peaks) >= 0.8;
    trend.growth = explained ? Growth::kLongerInputs : Growth::kLargerSteps;
    trend.grown_bytes = static_cast<uint64_t>(larger);
    trend.growing = most_enlarged(steps);
    slope = slope_of(peaks);
  }
  if (trend.growth == Growth::kNone) return;
  trend.grown_steps = static_cast<uint32_t>(steps.size() - 1 - kWarmUp);
  trend.bytes_per_step = static_cast<uint64_t>(std::max(slope, 0.0));
  if (room_bytes == 0 || slope < 1) return;
  const double left = static_cast<double>(room_bytes) - peaks.back();
  const double more = left > 0 ? std::floor(left / slope) : 0;
  if (more <= kFarthest * static_cast<double>(steps.size()))
    trend.full_at_step = static_cast<uint32_t>(static_cast<double>(steps.size()) + more + 1);
}

// True if most of the falls' steps have what `holds` asks for.
bool most_falls(const std::vector<StepEnd>& steps, const Teeth& teeth,
                const std::function<bool(const StepEnd&)>& holds) {
  const auto with = std::count_if(teeth.falls.begin(), teeth.falls.end(),
                                  [&](size_t index) { return holds(steps[kWarmUp + index]); });
  return with * 10 >= static_cast<ptrdiff_t>(teeth.falls.size()) * 8;
}

trace::LineId most_frequent(const std::vector<StepEnd>& steps, const Teeth& teeth,
                            const std::function<LineBytes(const StepEnd&)>& line_of) {
  std::map<trace::LineId, uint64_t> bytes;
  for (const size_t index : teeth.falls) {
    const LineBytes line = line_of(steps[kWarmUp + index]);
    bytes[line.line] += line.bytes;
  }
  const auto most =
      std::max_element(bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes.end() ? 0 : most->first;
}

// The line that allocates more in the high steps (those before the falls) than in the steps after them.
trace::LineId extra_line(const std::vector<StepEnd>& steps, const Teeth& teeth) {
  std::map<trace::LineId, double> gains;
  for (const size_t index : teeth.falls) {
    for (const LineBytes& line : steps[kWarmUp + index - 1].largest)
      gains[line.line] += static_cast<double>(line.bytes);
    for (const LineBytes& line : steps[kWarmUp + index].largest) gains[line.line] -= static_cast<double>(line.bytes);
  }
  const auto most =
      std::max_element(gains.begin(), gains.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == gains.end() || most->second <= 0 ? 0 : most->first;
}

void take(const Teeth& teeth, ToothCause cause, trace::LineId line, Trend& trend) {
  trend.tooth = cause;
  trend.period_steps = teeth.period;
  trend.tooth_bytes = static_cast<uint64_t>(teeth.height);
  trend.line = line;
}

void find_teeth(const std::vector<StepEnd>& steps, uint64_t room_bytes, Trend& trend) {
  const Series ends = series_of(steps, [](const StepEnd& step) { return step.allocated_bytes; });
  const Series peaks = series_of(steps, [](const StepEnd& step) { return step.peak_allocated_bytes; });
  const Series reserved = series_of(steps, [](const StepEnd& step) { return step.reserved_bytes; });
  const Series inputs = series_of(steps, [](const StepEnd& step) { return step.input_bytes; });
  const uint64_t whole = std::max<uint64_t>(
      room_bytes, static_cast<uint64_t>(peaks.empty() ? 0 : *std::max_element(peaks.begin(), peaks.end())));
  const double least = std::max(1.0, static_cast<double>(whole) / kLeastShare);

  if (const auto teeth = teeth_of(ends, least)) {
    const bool collected = most_falls(steps, *teeth, [](const StepEnd& step) { return step.collected_blocks > 0; });
    take(*teeth, collected ? ToothCause::kGarbageCollection : ToothCause::kReleased,
         most_frequent(steps, *teeth, [](const StepEnd& step) { return step.falling; }), trend);
  } else if (const auto high_steps = teeth_of(peaks, least)) {
    if (rank_correlation_of(inputs, peaks) >= 0.8)
      take(*high_steps, ToothCause::kInputLengths, most_enlarged(steps), trend);
    else
      take(*high_steps, ToothCause::kOtherWork, extra_line(steps, *high_steps), trend);
  } else if (const auto returns = teeth_of(reserved, least)) {
    if (most_falls(steps, *returns, [](const StepEnd& step) { return step.returned_bytes > 0; }))
      take(*returns, ToothCause::kCacheEmptied,
           most_frequent(steps, *returns, [](const StepEnd& step) { return step.returning; }), trend);
  }
}

}  // namespace

std::string_view name_of(Growth growth) {
  switch (growth) {
    case Growth::kNone: return "";
    case Growth::kLeak: return "leak";
    case Growth::kLongerInputs: return "longer inputs";
    case Growth::kLargerSteps: return "larger steps";
  }
  return "";
}

std::string_view name_of(ToothCause cause) {
  switch (cause) {
    case ToothCause::kNone: return "";
    case ToothCause::kGarbageCollection: return "garbage collection";
    case ToothCause::kCacheEmptied: return "cache emptied";
    case ToothCause::kInputLengths: return "input lengths";
    case ToothCause::kOtherWork: return "other work";
    case ToothCause::kReleased: return "released";
  }
  return "";
}

uint64_t steady_growth(const std::vector<StepEnd>& steps) {
  return static_cast<uint64_t>(steady_rise(series_of(steps, [](const StepEnd& step) { return step.allocated_bytes; })));
}

Trend find_trend(const std::vector<StepEnd>& steps, uint64_t room_bytes) {
  Trend trend;
  if (steps.size() < kLeastSteps) return trend;
  find_growth(steps, room_bytes, trend);
  find_teeth(steps, room_bytes, trend);
  return trend;
}

}  // namespace drydock::ledger

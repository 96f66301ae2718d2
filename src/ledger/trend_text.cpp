#include <fmt/format.h>

#include "ledger/sizes.h"
#include "ledger/verdict.h"

namespace drydock::ledger {
namespace {

std::string at_line(const std::string& line) { return line.empty() ? "" : fmt::format(" ({})", line); }

std::string growth_sentence(const TrendRow& row, uint32_t steps, bool died) {
  const Trend& trend = row.trend;
  std::string text;
  switch (trend.growth) {
    case Growth::kNone: return text;
    case Growth::kLeak:
      text =
          fmt::format("Steps keep about {} more each{}.", human_size(trend.bytes_per_step), at_line(row.growing_line));
      break;
    case Growth::kLongerInputs:
      text = fmt::format("Steps need about {} more each, as their inputs get larger{}.",
                         human_size(trend.bytes_per_step), at_line(row.growing_line));
      break;
    case Growth::kLargerSteps:
      text = fmt::format("Steps need about {} more each, though their inputs do not grow{}.",
                         human_size(trend.bytes_per_step), at_line(row.growing_line));
      break;
  }
  if (!died && trend.full_at_step > steps)
    text += fmt::format(" At that rate step {} will be the first that does not fit.", trend.full_at_step);
  return text;
}

std::string cause_text(const TrendRow& row) {
  const std::string line = row.tooth_line.empty() ? "an unknown line" : row.tooth_line;
  switch (row.trend.tooth) {
    case ToothCause::kNone: return "";
    case ToothCause::kGarbageCollection:
      return fmt::format(
          "reference cycles hold blocks of {} until Python's garbage collector runs; break the cycle or "
          "call gc.collect() more often",
          line);
    case ToothCause::kCacheEmptied:
      return fmt::format("{} gives the cache back to the driver, and the next steps fetch it again", line);
    case ToothCause::kInputLengths: return "inputs are longer and shorter in turn";
    case ToothCause::kOtherWork: return fmt::format("such a step allocates more at {}", line);
    case ToothCause::kReleased: return fmt::format("blocks of {} are kept over these steps, then released", line);
  }
  return "";
}

}  // namespace

std::vector<std::string> sentences_of(const TrendRow& row, uint32_t steps, bool died) {
  std::vector<std::string> sentences;
  if (std::string growth = growth_sentence(row, steps, died); !growth.empty()) sentences.push_back(std::move(growth));
  if (row.trend.tooth != ToothCause::kNone)
    sentences.push_back(fmt::format("Memory goes up and down by {} every {} steps: {}.",
                                    human_size(row.trend.tooth_bytes), row.trend.period_steps, cause_text(row)));
  return sentences;
}

}  // namespace drydock::ledger

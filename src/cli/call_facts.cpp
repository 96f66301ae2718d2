#include "cli/call_facts.h"

#include <cmath>
#include <map>
#include <memory>
#include <string_view>

#include "cost/roofline.h"
#include "device/profile.h"
#include "ledger/aicpu.h"
#include "trace/call_encoding.h"

namespace drydock::cli {
namespace {

struct Facts {
  cost::Roofline roofline;
  bool is_on_aicpu = false;
};

class FactsOfCalls {
 public:
  explicit FactsOfCalls(const trace::Reader& reader) : reader_(reader) {
    // A profile that can't be read any more: without its rates, no time is known.
    if (!device::load_profile(reader.info().profile, profile_).is_ok()) profile_ = {};
  }

  const Facts& of(trace::CallId id) {
    const auto [place, is_new] = facts_.try_emplace(id);
    Facts& facts = place->second;
    trace::Call call;
    if (!is_new || !trace::decode_call(reader_.call(id), call)) return facts;
    const trace::Signature signature = trace::parse_signature(reader_.operator_signature(call.operator_id));
    facts.is_on_aicpu = ledger::runs_on_aicpu(signature.name, call, signature);
    facts.roofline = cost::roofline_of(call, signature, profile_);
    return facts;
  }

  timeline::CallTime time_of(trace::CallId id) {
    const Facts& facts = of(id);
    if (facts.is_on_aicpu || !facts.roofline.is_known) return {};  // nobody knows what its own CPU takes
    return {true, static_cast<uint64_t>(std::llround(facts.roofline.device_ns()))};
  }

  // Copies within the device read and write it; the rate of the link to the host is in no profile.
  timeline::CallTime time_of_copy(trace::CopyKind kind, uint64_t bytes) const {
    const bool is_inside = kind == trace::CopyKind::kDeviceToDevice || kind == trace::CopyKind::kMemset;
    if (!is_inside || profile_.hbm_tbs <= 0) return {};
    constexpr double kBytesOfTera = 1e12;
    constexpr double kNsOfSecond = 1e9;
    const double moved = static_cast<double>(bytes) * (kind == trace::CopyKind::kMemset ? 1 : 2);
    return {true, static_cast<uint64_t>(std::llround(moved / (profile_.hbm_tbs * kBytesOfTera) * kNsOfSecond))};
  }

 private:
  const trace::Reader& reader_;
  device::Profile profile_;
  std::map<trace::CallId, Facts> facts_;
};

}  // namespace

exports::CallFacts call_facts_of(const trace::Reader& reader) {
  const auto calls = std::make_shared<FactsOfCalls>(reader);
  exports::CallFacts facts;
  facts.clocks.call = [calls](trace::CallId id) { return calls->time_of(id); };
  facts.clocks.copy = [calls](trace::CopyKind kind, uint64_t bytes) { return calls->time_of_copy(kind, bytes); };
  facts.core_of = [calls](trace::CallId id) -> std::string_view {
    const Facts& found = calls->of(id);
    if (found.is_on_aicpu) return "AI_CPU";
    return found.roofline.unit == cost::Unit::kCube ? "AI_CORE" : "AI_VECTOR_CORE";
  };
  return facts;
}

}  // namespace drydock::cli

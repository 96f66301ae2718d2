#include "cli/call_facts.h"

#include <string_view>

#include "ledger/aicpu.h"
#include "trace/call_encoding.h"

namespace drydock::cli {
namespace {

bool runs_on_aicpu(const trace::Reader& reader, trace::CallId id) {
  trace::Call call;
  if (!trace::decode_call(reader.call(id), call)) return false;
  const trace::Signature signature = trace::parse_signature(reader.operator_signature(call.operator_id));
  return ledger::runs_on_aicpu(signature.name, call, signature);
}

}  // namespace

exports::CallFacts call_facts_of(const trace::Reader& reader) {
  exports::CallFacts facts;
  facts.core_of = [&reader](trace::CallId id) -> std::string_view {
    return runs_on_aicpu(reader, id) ? "AI_CPU" : "N/A";
  };
  return facts;
}

}  // namespace drydock::cli

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "ledger/sizes.h"
#include "ledger/verdict.h"

namespace drydock::ledger {
namespace {

constexpr const char* kAllocatorVariable = "PYTORCH_NPU_ALLOC_CONF";

// The user's own settings with expandable segments added. torch_npu refuses these two keys beside them.
std::string with_expandable_segments(const std::string& settings) {
  std::string result;
  size_t begin = 0;
  while (begin <= settings.size()) {
    size_t end = settings.find(',', begin);
    if (end == std::string::npos) end = settings.size();
    const std::string item = settings.substr(begin, end - begin);
    const std::string key = item.substr(0, item.find(':'));
    if (!item.empty() && key != "expandable_segments" && key != "max_split_size_mb" &&
        key != "garbage_collection_threshold")
      result += item + ",";
    begin = end + 1;
  }
  return result + "expandable_segments:True";
}

Advice smaller_batch(const MemoryEvidence& evidence) {
  return {"lower the batch size per device (and raise gradient accumulation), or the sequence length",
          fmt::format("{} are in use by live tensors and {} more were asked for on a device of {}.",
                      human_size(evidence.allocated_bytes + evidence.workspace_bytes),
                      human_size(evidence.requested_bytes), human_size(evidence.capacity_bytes)),
          {}};
}

Advice checkpointing(const std::vector<HolderLine>& holders) {
  std::string reason = "activations kept for the backward pass are computed again instead of being held.";
  if (!holders.empty())
    reason = fmt::format("the largest holder is {} with {}; if those are activations, they need not be kept.",
                         holders.front().line, human_size(holders.front().bytes));
  return {"turn on gradient checkpointing", std::move(reason), {}};
}

Advice fewer_weights() {
  return {"shard or shrink the model's state: FSDP or ZeRO over more devices, LoRA, 8-bit optimizer states",
          "weights, gradients and optimizer states are there in every step, whatever the batch size.",
          {}};
}

void advise_fragmentation(const MemoryEvidence& evidence, bool expandable_segments, const std::string& settings,
                          std::vector<Advice>& advice) {
  if (!expandable_segments) {
    const std::string value = with_expandable_segments(settings);
    advice.push_back({fmt::format("{}={}", kAllocatorVariable, value),
                      fmt::format("{} are reserved but unused, in pieces too small for {}; segments that can grow "
                                  "join such pieces.",
                                  human_size(evidence.cached_bytes()), human_size(evidence.requested_bytes)),
                      {{kAllocatorVariable, value}}});
  } else {
    advice.push_back({"call torch.npu.empty_cache() where the program changes phase (training, evaluation, saving)",
                      "expandable segments are on already; pages return to the device only if no block is left in "
                      "them.",
                      {}});
  }
  advice.push_back({"pad or bucket sequences to a few lengths",
                    "sizes that differ in every step leave gaps that no later tensor fits.",
                    {}});
  advice.push_back(smaller_batch(evidence));
}

void advise_growth(const MemoryEvidence& evidence, const std::string& growing_line, std::vector<Advice>& advice) {
  const std::string rate =
      fmt::format("{} were added over {} steps, about {} a step", human_size(evidence.grown_bytes),
                  evidence.grown_steps, human_size(evidence.grown_bytes / std::max<uint32_t>(1, evidence.grown_steps)));
  if (evidence.growth == Growth::kLeak || evidence.growth == Growth::kNone) {
    advice.push_back({growing_line.empty() ? "find what outlives a step"
                                           : fmt::format("look at {}: it keeps more in every step", growing_line),
                      rate + "; a loss kept without .item() or .detach(), or a list of outputs, does this.",
                      {}});
    return;
  }
  const bool longer = evidence.growth == Growth::kLongerInputs;
  advice.push_back({longer ? "cap the length of the inputs (max_length, truncation), or let batches hold a number of "
                             "tokens and not of samples"
                           : fmt::format("look at {}: it allocates more in every step",
                                         growing_line.empty() ? "what the steps do" : growing_line),
                    rate + (longer ? ", as the inputs that were copied to the device grew; nothing outlives a step."
                                   : "; nothing outlives a step, and the inputs did not grow."),
                    {}});
  if (longer)
    advice.push_back({"do not sort samples by length, so that the longest batch comes first and fails at once",
                      "batches that grow over an epoch die late.",
                      {}});
  advice.push_back(smaller_batch(evidence));
}

}  // namespace

std::vector<Advice> advise(MemoryClass memory_class, const MemoryEvidence& evidence, bool expandable_segments,
                           const std::string& allocator_settings, const std::vector<HolderLine>& holders,
                           const std::string& growing_line) {
  std::vector<Advice> advice;
  switch (memory_class) {
    case MemoryClass::kNone: break;
    case MemoryClass::kOversize:
      advice.push_back({"split this tensor: chunk the operation, use a fused kernel, or shard it over devices",
                        fmt::format("{} in one piece can't fit a device of {}, however empty.",
                                    human_size(evidence.requested_bytes), human_size(evidence.capacity_bytes)),
                        {}});
      advice.push_back({"check the shape at this line",
                        "a request of this size is often a mask or a score matrix that grows with the square of the "
                        "sequence length.",
                        {}});
      break;
    case MemoryClass::kWorkspace:
      advice.push_back({"make the operator at this line smaller: shorter sequences or fewer rows in one call",
                        fmt::format("its scratch memory of {} does not fit beside {} of reserved memory.",
                                    human_size(std::max(evidence.requested_bytes, evidence.workspace_bytes)),
                                    human_size(evidence.reserved_bytes)),
                        {}});
      advice.push_back({"call torch.npu.empty_cache() before it",
                        fmt::format("{} lie unused in the allocator's cache, where scratch memory can't use them.",
                                    human_size(evidence.cached_bytes())),
                        {}});
      advice.push_back(smaller_batch(evidence));
      break;
    case MemoryClass::kGrowth: advise_growth(evidence, growing_line, advice); break;
    case MemoryClass::kFragmentation:
      advise_fragmentation(evidence, expandable_segments, allocator_settings, advice);
      break;
    case MemoryClass::kExternal:
      if (evidence.hccl_bytes > 0)
        advice.push_back({"HCCL_BUFFSIZE=100",
                          fmt::format("HCCL holds {} for its communicators, 200 MB twice for each unless set lower.",
                                      human_size(evidence.hccl_bytes)),
                          {{"HCCL_BUFFSIZE", "100"}}});
      if (evidence.foreign_bytes() > 0)
        advice.push_back({"end the other processes on this device",
                          fmt::format("they hold {}.", human_size(evidence.foreign_bytes())),
                          {}});
      advice.push_back(smaller_batch(evidence));
      break;
    case MemoryClass::kCapacity:
      if (evidence.limit_bytes > 0)
        advice.push_back({"raise the program's own limit (torch.npu.set_per_process_memory_fraction)",
                          fmt::format("it allows {}, and the device has {}.", human_size(evidence.limit_bytes),
                                      human_size(evidence.capacity_bytes)),
                          {}});
      advice.push_back(smaller_batch(evidence));
      advice.push_back(checkpointing(holders));
      advice.push_back(fewer_weights());
      break;
  }
  return advice;
}

std::string explain(MemoryClass memory_class, const MemoryEvidence& evidence) {
  const std::string asked = human_size(evidence.requested_bytes);
  switch (memory_class) {
    case MemoryClass::kNone: return "";
    case MemoryClass::kOversize:
      return fmt::format("The {} asked for at once are more than the whole device has ({}).", asked,
                         human_size(evidence.capacity_bytes));
    case MemoryClass::kWorkspace:
      return evidence.asked_for_workspace || evidence.scratch_bytes > 0
                 ? fmt::format("An operator's scratch memory of {} did not fit.", asked)
                 : fmt::format("Operators' scratch memory holds {}, more than all tensors.",
                               human_size(evidence.workspace_bytes));
    case MemoryClass::kGrowth:
      if (evidence.growth == Growth::kLongerInputs)
        return fmt::format(
            "Each step needed more than those before, {} in {} steps, as its inputs were larger; nothing "
            "was kept from step to step.",
            human_size(evidence.grown_bytes), evidence.grown_steps);
      if (evidence.growth == Growth::kLargerSteps)
        return fmt::format(
            "Each step needed more than those before, {} in {} steps; nothing was kept from step to "
            "step, and the inputs from the host did not grow.",
            human_size(evidence.grown_bytes), evidence.grown_steps);
      return fmt::format("Steps ended with ever more allocated: {} in {} steps.", human_size(evidence.grown_bytes),
                         evidence.grown_steps);
    case MemoryClass::kFragmentation:
      return fmt::format("{} were reserved and unused, but no piece of them had room for {}.",
                         human_size(evidence.cached_bytes()), asked);
    case MemoryClass::kExternal:
      return fmt::format("Without the {} that HCCL and {} that other processes hold, {} would have fit.",
                         human_size(evidence.hccl_bytes), human_size(evidence.foreign_bytes()), asked);
    case MemoryClass::kCapacity:
      if (evidence.limit_bytes > 0)
        return fmt::format("Live tensors fill the {} that the program allows itself: {} allocated, {} cached.",
                           human_size(evidence.limit_bytes), human_size(evidence.allocated_bytes),
                           human_size(evidence.cached_bytes()));
      return fmt::format("Live tensors fill the device: {} allocated, {} cached, {} free.",
                         human_size(evidence.allocated_bytes), human_size(evidence.cached_bytes()),
                         human_size(evidence.free_bytes));
  }
  return "";
}

void tell_operands(const std::string& exception_text, std::vector<std::string>& evidence) {
  constexpr std::string_view kMark = "\noperands: ";
  const size_t at = exception_text.find(kMark);
  if (at == std::string::npos) return;
  const std::string operands = exception_text.substr(at + kMark.size());
  evidence.push_back(fmt::format("The line that asked works on {}.", operands.substr(0, operands.find('\n'))));
}

}  // namespace drydock::ledger

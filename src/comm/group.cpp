#include "comm/group.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/generated/error_codes.h"

namespace drydock::comm {
namespace {

/// Messages of one communicator and stream.
struct Batch {
  std::shared_ptr<Communicator> communicator;
  device::Stream* stream = nullptr;
  std::vector<Message> messages;
  trace::LineId line = 0;
};

struct Group {
  int depth = 0;
  std::vector<Batch> batches;
};

Group& this_threads_group() {
  thread_local Group group;
  return group;
}

Status submit(Batch batch) {
  Collective call;
  call.kind = Kind::kSendRecv;
  call.line = batch.line;
  call.messages = std::move(batch.messages);
  return batch.communicator->submit(std::move(call), *batch.stream);
}

}  // namespace

void start_group() { ++this_threads_group().depth; }

Status end_group(std::string_view entry) {
  Group& group = this_threads_group();
  if (group.depth == 0) {
    return Status::error(code::HCCL_E_PARA,
                         std::string(entry) + ": this thread is in no group. Call HcclGroupStart before.");
  }
  if (--group.depth > 0) return Status::ok();
  Status failure = Status::ok();
  for (Batch& batch : std::exchange(group.batches, {})) {
    Status status = submit(std::move(batch));
    if (failure.is_ok()) failure = std::move(status);
  }
  return failure;
}

Status submit_messages(std::shared_ptr<Communicator> communicator, device::Stream& stream,
                       std::vector<Message> messages, trace::LineId line) {
  Group& group = this_threads_group();
  if (group.depth == 0) return submit({std::move(communicator), &stream, std::move(messages), line});
  const auto known = std::find_if(group.batches.begin(), group.batches.end(), [&](const Batch& batch) {
    return batch.communicator == communicator && batch.stream == &stream;
  });
  if (known == group.batches.end()) {
    group.batches.push_back({std::move(communicator), &stream, std::move(messages), line});
  } else {
    known->messages.insert(known->messages.end(), messages.begin(), messages.end());
  }
  return Status::ok();
}

}  // namespace drydock::comm

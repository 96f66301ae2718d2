#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "cli/call_facts.h"
#include "cli/commands.h"
#include "cli/entry_names.h"
#include "export/ascend_profile.h"

namespace drydock::cli {

int msprof_command(const MsprofOptions& options) {
  if (options.exports != "on" && options.analyze != "on")
    return refuse("msprof: --export=on is what there is. See drydock msprof --help.");
  if (options.exports != "on") return 0;  // nothing to analyse: there are no records of communication
  std::vector<std::string> sentences;
  const Status status = exports::export_ascend_profile(
      options.output, call_facts_of, [](uint32_t entry) { return entry_of(entry).name; }, sentences);
  for (const std::string& sentence : sentences) complain(sentence);
  if (!status.is_ok()) return refuse(status.message());
  // torch_npu's parser looks for the tables ten times a second, and gives up where it finds that nothing but that look
  // is left to wait for: the vendor's msprof runs longer than that.
  constexpr std::chrono::milliseconds kSeen(500);
  std::this_thread::sleep_for(kSeen);
  return 0;
}

}  // namespace drydock::cli

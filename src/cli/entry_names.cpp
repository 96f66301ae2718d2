#include "cli/entry_names.h"

#include <string>

#include "abi/generated/entry_rows.h"
#include "ops/operator_row.h"
#include "trace/recorder.h"

namespace drydock::cli {

ledger::EntryMeaning entry_of(uint32_t entry) {
  if (entry >= trace::kFirstOperatorEntry) {
    const auto rows = ops::operator_rows();
    const uint32_t index = entry - trace::kFirstOperatorEntry;
    if (index < rows.size())
      return {std::string(rows[index].name), true, rows[index].operator_class == ops::OperatorClass::kRefused};
  } else if (const auto rows = abi::entry_rows(); entry < rows.size()) {
    return {std::string(rows[entry].name), false, rows[entry].entry_class == abi::EntryClass::kRefused};
  }
  return {"entry " + std::to_string(entry), false, false};
}

}  // namespace drydock::cli

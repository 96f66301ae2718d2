#pragma once

#include <string>

#include "base/export.h"
#include "base/status.h"
#include "trace/block_birth.h"
#include "trace/reader.h"

namespace drydock::trace {

struct TextOptions {
  bool times = true;         ///< each line begins with its time in microseconds; without, two runs compare
  bool definitions = false;  ///< also the records that only define ids
  std::string (*entry_name)(uint32_t entry) = nullptr;  ///< what an entry's number means; without, the number stands
};

/// Names as the text form and the ledger print them.
DRYDOCK_API std::string_view name_of(Kind kind) noexcept;
DRYDOCK_API std::string_view name_of(Outcome outcome) noexcept;
DRYDOCK_API std::string_view name_of(DriverMemory memory) noexcept;
DRYDOCK_API std::string_view name_of(Phase phase) noexcept;
DRYDOCK_API std::string_view name_of(Label label) noexcept;
DRYDOCK_API std::string_view name_of(CopyKind kind) noexcept;
DRYDOCK_API std::string_view name_of(Assumption kind) noexcept;
DRYDOCK_API std::string_view name_of(PythonState state) noexcept;

/// One record as a line of text without its line end. Ids are resolved through the reader that gave the record.
DRYDOCK_API std::string print_record(const Reader& reader, const Record& record, const TextOptions& options);

/// The whole trace at `path` into `text`, a line per record; a truncated one ends with the sentence that says so.
DRYDOCK_API Status print_trace(const std::string& path, const TextOptions& options, std::string& text);

}  // namespace drydock::trace

#include <cstdio>

#include "cli/commands.h"
#include "cli/entry_names.h"
#include "ledger/build.h"
#include "ledger/report.h"

namespace drydock::cli {

int ledger_command(const LedgerOptions& options) {
  ledger::Report report;
  if (Status status = ledger::open_run(options.run, options.rebuild, entry_of, report); !status.is_ok()) {
    return refuse(status.message());
  }
  std::fputs((options.json ? ledger::report_json(report) : ledger::report_text(report)).c_str(), stdout);
  return 0;
}

}  // namespace drydock::cli

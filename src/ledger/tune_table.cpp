#include "ledger/tune_table.h"

#include <fmt/format.h>

#include "ledger/database.h"
#include "ledger/run_info.h"

namespace drydock::ledger {

Status write_tune_table(const std::filesystem::path& ledger, const std::vector<TunedSetting>& rows) {
  try {
    Database database(ledger, Database::Mode::kUpdate);
    database.execute(
        "BEGIN; DROP TABLE IF EXISTS tune_results; CREATE TABLE tune_results(setting TEXT, peak_reserved_bytes "
        "INTEGER, "
        "peak_allocated_bytes INTEGER, fragmentation REAL, retries INTEGER, driver_calls INTEGER, fits INTEGER, "
        "margin_bytes INTEGER, pareto INTEGER, confirmed INTEGER)");
    {
      Statement insert = database.prepare("INSERT INTO tune_results VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
      for (const TunedSetting& row : rows)
        insert.run(std::string_view(row.setting), row.peak_reserved_bytes, row.peak_allocated_bytes, row.fragmentation,
                   row.retries, row.driver_calls, row.fits, row.margin_bytes, row.pareto, row.confirmed);
    }
    database.execute("COMMIT");
  } catch (const DatabaseError& failure) {
    return Status::error(kUnwritable, fmt::format("The settings could not be written down: {}", failure.what()));
  }
  return Status::ok();
}

}  // namespace drydock::ledger

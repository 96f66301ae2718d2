#include "ledger/tune_results.h"

#include <fmt/format.h>

#include "ledger/database.h"
#include "ledger/run_info.h"

namespace drydock::ledger {

std::vector<TuneResult> read_tune_results(const std::filesystem::path& ledger, std::string& failure) {
  std::vector<TuneResult> results;
  try {
    Database database(ledger, Database::Mode::kRead);
    if (database.integer("SELECT count(*) FROM sqlite_master WHERE name = 'tune_results'") == 0) return results;
    Statement rows = database.prepare(
        "SELECT setting, peak_reserved_bytes, peak_allocated_bytes, fragmentation, retries, driver_calls, fits, "
        "margin_bytes, pareto, confirmed FROM tune_results ORDER BY rowid");
    while (rows.step()) {
      auto count = [&rows](int column) {
        return rows.is_null(column) ? std::nullopt : std::optional(rows.unsigned_integer(column));
      };
      TuneResult result;
      result.setting = rows.text(0);
      result.peak_reserved_bytes = count(1);
      result.peak_allocated_bytes = count(2);
      if (!rows.is_null(3)) result.fragmentation = rows.number(3);
      result.retries = count(4);
      result.driver_calls = count(5);
      if (!rows.is_null(6)) result.fits = rows.integer(6) != 0;
      if (!rows.is_null(7)) result.margin_bytes = rows.integer(7);
      result.is_pareto = rows.integer(8) != 0;
      result.is_confirmed = rows.integer(9) != 0;
      results.push_back(std::move(result));
    }
  } catch (const DatabaseError& error) {
    failure = fmt::format("The settings that were tried can't be read: {}.", error.what());
  }
  return results;
}

Status write_tune_results(const std::filesystem::path& ledger, const std::vector<TuneResult>& results) {
  try {
    Database database(ledger, Database::Mode::kUpdate);
    database.execute(
        "BEGIN; DROP TABLE IF EXISTS tune_results; CREATE TABLE tune_results(setting TEXT, peak_reserved_bytes "
        "INTEGER, "
        "peak_allocated_bytes INTEGER, fragmentation REAL, retries INTEGER, driver_calls INTEGER, fits INTEGER, "
        "margin_bytes INTEGER, pareto INTEGER, confirmed INTEGER)");
    {
      Statement insert = database.prepare("INSERT INTO tune_results VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
      for (const TuneResult& row : results)
        insert.run(std::string_view(row.setting), row.peak_reserved_bytes, row.peak_allocated_bytes, row.fragmentation,
                   row.retries, row.driver_calls, row.fits, row.margin_bytes, row.is_pareto, row.is_confirmed);
    }
    database.execute("COMMIT");
  } catch (const DatabaseError& failure) {
    return Status::error(kUnwritable, fmt::format("The settings could not be written down: {}", failure.what()));
  }
  return Status::ok();
}

}  // namespace drydock::ledger

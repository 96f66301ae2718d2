#include "ledger/tune_results.h"

#include <fmt/format.h>

#include "ledger/database.h"

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

}  // namespace drydock::ledger

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/entry_names.h"
#include "ledger/build.h"
#include "ledger/report.h"
#include "ledger/sizes.h"
#include "ledger/tune_results.h"
#include "page/page.h"

namespace drydock::cli {
namespace {

namespace fs = std::filesystem;

// A page that was there stays until the new one is whole.
bool write_whole(const fs::path& path, const std::string& text) {
  const fs::path draft = path.string() + fmt::format(".{}", getpid());
  std::ofstream file(draft, std::ios::binary);
  file << text;
  file.close();
  std::error_code error;
  if (file) fs::rename(draft, path, error);
  if (file && !error) return true;
  complain(
      fmt::format("{} can't be written: {}.", path.string(), error ? error.message() : "no room, or no such folder"));
  fs::remove(draft, error);
  return false;
}

}  // namespace

int report_command(const ReportOptions& options) {
  ledger::Report report;
  if (Status status = ledger::open_run(options.run, options.rebuild, entry_of, report); !status.is_ok()) {
    return refuse(status.message());
  }
  std::error_code error;
  fs::path folder = options.run;
  if (!fs::is_directory(folder, error)) folder = fs::absolute(folder, error).parent_path();
  page::RunHistory history = page::read_run_history(folder);
  std::vector<std::string> missing = history.missing;
  std::string failure;
  std::vector<ledger::TuneResult> tune_results;
  if (!report.ledger.empty()) tune_results = ledger::read_tune_results(report.ledger, failure);
  if (!failure.empty()) missing.push_back(failure);
  const std::string page = page::render_page(report, history, tune_results, missing);
  if (!write_whole(options.out, page)) return kExitUsage;
  fmt::print("{} ({})\n", options.out, ledger::human_size(page.size()));
  return 0;
}

}  // namespace drydock::cli

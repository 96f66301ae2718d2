#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ledger/report.h"
#include "ledger/tune_results.h"
#include "page/run_history.h"

namespace drydock::page {

/// One HTML file that needs nothing else: no network, and for the verdict and the tables no script.
/// `missing`: sentences about what could not be read, besides those of the report.
std::string render_page(const ledger::Report& report, RunHistory& history,
                        const std::vector<ledger::TuneResult>& tune_results, const std::vector<std::string>& missing);

/// `text` with what HTML gives a meaning replaced; for elements and attributes in double quotes.
std::string escape_html(std::string_view text);
/// JSON that can stand in a script element: no "<" is left.
std::string escape_script_json(std::string json);

}  // namespace drydock::page

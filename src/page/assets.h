#pragma once

#include <string_view>

// The page's own files (assets/) and the chart library, as the build embedded them (cmake/page_assets.cmake).

namespace drydock::page {

extern const std::string_view kPageHtml;
extern const std::string_view kPageCss;
extern const std::string_view kPageScript;
/// dygraphs, and the licence that goes with every copy of it.
extern const std::string_view kChartScript;
extern const std::string_view kChartCss;
extern const std::string_view kChartLicence;

}  // namespace drydock::page

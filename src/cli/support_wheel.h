#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace drydock::cli {

/// One shared object of a wheel and the vendor's names it can't be loaded without.
struct WheelObject {
  std::string file;
  std::vector<std::string> missing;  ///< linked, and not exported by Drydock
  size_t linked = 0;
};

/// What a torch_npu wheel wants of the vendor's libraries.
struct WheelReport {
  std::vector<WheelObject> objects;  ///< only those that link a vendor's name
  std::set<std::string> looked_up;   ///< names in its strings that have a row
  std::set<std::string> unknown;     ///< names in its strings that look like the vendor's and have none
  std::set<std::string> operators;   ///< aclnn names of which both phases are named
  std::set<std::string> unknown_operators;
};

/// Reads a .whl file, or a folder of shared objects (an unpacked wheel, an installed torch_npu).
/// Throws std::runtime_error with a sentence where that can't be done.
WheelReport inspect_wheel(const std::filesystem::path& path);

void print_wheel_report(const WheelReport& report, bool json);

}  // namespace drydock::cli

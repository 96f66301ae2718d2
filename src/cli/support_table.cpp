#include "cli/support_table.h"

#include <unordered_map>

#include <fmt/format.h>

#include "abi/generated/entry_rows.h"
#include "ops/operator_row.h"
#include "ops/workspace.h"

namespace drydock::cli {
namespace {

constexpr std::string_view kPhase1Suffix = "GetWorkspaceSize";

std::string_view name_of(abi::EntryClass entry_class) {
  switch (entry_class) {
    case abi::EntryClass::kModelled: return "modelled";
    case abi::EntryClass::kConstant: return "constant";
    case abi::EntryClass::kHint: return "hint";
    case abi::EntryClass::kRefused: return "refused";
    case abi::EntryClass::kAbsent: return "absent";
  }
  return "absent";
}

std::string_view name_of(ops::OperatorClass operator_class) {
  switch (operator_class) {
    case ops::OperatorClass::kModelled: return "modelled";
    case ops::OperatorClass::kGhost: return "ghost";
    case ops::OperatorClass::kRefused: return "refused";
    case ops::OperatorClass::kAbsent: return "absent";
  }
  return "absent";
}

std::string_view name_of(ops::ArgKind kind) {
  switch (kind) {
    case ops::ArgKind::kTensor: return "tensor";
    case ops::ArgKind::kTensorList: return "tensor list";
    case ops::ArgKind::kScalar: return "scalar";
    case ops::ArgKind::kScalarList: return "scalar list";
    case ops::ArgKind::kIntArray: return "int array";
    case ops::ArgKind::kFloatArray: return "float array";
    case ops::ArgKind::kBoolArray: return "bool array";
    case ops::ArgKind::kInt: return "int";
    case ops::ArgKind::kDouble: return "double";
    case ops::ArgKind::kBool: return "bool";
    case ops::ArgKind::kString: return "string";
    case ops::ArgKind::kDataType: return "data type";
    case ops::ArgKind::kPointer: return "pointer";
  }
  return "pointer";
}

std::string_view direction_prefix(const ops::ArgSpec& arg) {
  if (arg.kind != ops::ArgKind::kTensor && arg.kind != ops::ArgKind::kTensorList) return "";
  switch (arg.direction) {
    case ops::ArgDirection::kIn: return "in ";
    case ops::ArgDirection::kOut: return "out ";
    case ops::ArgDirection::kInOut: return "in/out ";
  }
  return "";
}

std::vector<SupportLine> make_lines() {
  std::vector<SupportLine> lines;
  for (const abi::EntryRow& row : abi::entry_rows()) {
    lines.push_back({row.name, row.library, name_of(row.entry_class), row.reason});
  }
  int32_t index = 0;
  for (const ops::OperatorRow& row : ops::operator_rows()) {
    // Operators of the legacy kind have no door of their own: they go through aclopCompileAndExecute.
    const bool is_legacy = !row.name.starts_with("aclnn");
    const std::string_view library = is_legacy ? "libacl_op_compiler" : "libopapi";
    lines.push_back({row.name, library, name_of(row.operator_class), row.reason, index++});
  }
  return lines;
}

}  // namespace

const std::vector<SupportLine>& support_lines() {
  static const std::vector<SupportLine>& lines = *new std::vector<SupportLine>(make_lines());
  return lines;
}

const SupportLine* find_support_line(std::string_view symbol) {
  static const auto& by_name = *[] {
    auto* map = new std::unordered_map<std::string_view, const SupportLine*>;
    for (const SupportLine& line : support_lines()) map->emplace(line.name, &line);
    return map;
  }();
  if (auto found = by_name.find(symbol); found != by_name.end()) return found->second;
  if (!symbol.ends_with(kPhase1Suffix)) return nullptr;
  auto found = by_name.find(symbol.substr(0, symbol.size() - kPhase1Suffix.size()));
  return found != by_name.end() && found->second->is_operator() ? found->second : nullptr;
}

std::string describe(const SupportLine& line) {
  std::string text = fmt::format("{}: {}\n  library: {}.so\n", line.name, line.support_class, line.library);
  if (!line.reason.empty()) text += fmt::format("  reason: {}\n", line.reason);
  if (!line.is_operator()) return text;
  const ops::OperatorRow& row = ops::operator_rows()[static_cast<size_t>(line.operator_index)];
  text += "  arguments:\n";
  for (const ops::ArgSpec& arg : row.args) {
    text += fmt::format("    {}{} {}\n", direction_prefix(arg), name_of(arg.kind), arg.name);
  }
  for (const ops::WorkspaceRule& rule : ops::workspace_rules(static_cast<uint32_t>(line.operator_index)))
    text += fmt::format("  workspace: {} ({})\n", rule.text, trace::name_of(rule.basis));
  return text;
}

}  // namespace drydock::cli

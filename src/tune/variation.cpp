#include "tune/variation.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include <fmt/format.h>

namespace drydock::tune {
namespace {

// Programs spell the same option with - and with _.
std::string with_dashes(std::string text) {
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

enum class Match { kNone, kAlone, kWithValue };

// "--batch_size", "--batch-size=4", "-b" for a name of one letter, "batch_size=4".
Match match(const std::string& argument, const std::string& name) {
  const std::string wanted = with_dashes(name);
  const size_t equals = argument.find('=');
  const std::string head = with_dashes(argument.substr(0, equals));
  const bool is_option = head == "--" + wanted || (wanted.size() == 1 && head == "-" + wanted);
  if (is_option) return equals == std::string::npos ? Match::kAlone : Match::kWithValue;
  return equals != std::string::npos && head == wanted ? Match::kWithValue : Match::kNone;
}

// What begins with a dash is the next option, but for negative numbers.
bool is_value(const std::string& argument) {
  return argument.size() < 2 || argument[0] != '-' || std::isdigit(static_cast<unsigned char>(argument[1])) != 0;
}

std::optional<bool> truth_of(const std::string& value) {
  std::string lower = value;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char letter) { return static_cast<char>(std::tolower(static_cast<unsigned char>(letter))); });
  constexpr std::array<std::string_view, 4> kTrue = {"true", "yes", "on", "1"};
  constexpr std::array<std::string_view, 4> kFalse = {"false", "no", "off", "0"};
  if (std::find(kTrue.begin(), kTrue.end(), lower) != kTrue.end()) return true;
  if (std::find(kFalse.begin(), kFalse.end(), lower) != kFalse.end()) return false;
  return std::nullopt;
}

bool contains(const std::vector<std::string>& command, const std::string& text) {
  return std::any_of(command.begin(), command.end(),
                     [&](const std::string& argument) { return argument.find(text) != std::string::npos; });
}

bool is_variable_name(const std::string& name) {
  const auto may_follow = [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_';
  };
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::all_of(name.begin(), name.end(), may_follow);
}

void fill_placeholder(const std::string& placeholder, const std::string& value, std::vector<std::string>& command) {
  std::vector<std::string> filled;
  for (std::string argument : command) {
    if (argument == placeholder && value.empty()) continue;
    for (size_t at = argument.find(placeholder); at != std::string::npos; at = argument.find(placeholder, at)) {
      argument.replace(at, placeholder.size(), value);
      at += value.size();
    }
    filled.push_back(std::move(argument));
  }
  command = std::move(filled);
}

void set_option(const std::string& name, const std::string& value, std::vector<std::string>& command) {
  std::vector<std::string> result;
  for (size_t index = 0; index < command.size(); ++index) {
    const std::string& argument = command[index];
    switch (match(argument, name)) {
      case Match::kNone: result.push_back(argument); break;
      case Match::kWithValue: result.push_back(argument.substr(0, argument.find('=') + 1) + value); break;
      case Match::kAlone: {
        const bool has_value = index + 1 < command.size() && is_value(command[index + 1]);
        const std::optional<bool> truth = truth_of(value);
        if (has_value || !truth) {
          result.push_back(argument);
          result.push_back(value);
          if (has_value) ++index;
        } else if (*truth) {
          result.push_back(argument);
        }
        break;
      }
    }
  }
  command = std::move(result);
}

std::string quoted(const std::string& argument) {
  constexpr std::string_view kPlain = "@%+=:,./-_";
  const bool is_plain = !argument.empty() && std::all_of(argument.begin(), argument.end(), [&](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 || kPlain.find(letter) != std::string_view::npos;
  });
  if (is_plain) return argument;
  std::string text = "'";
  for (const char letter : argument) text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

}  // namespace

Channel channel_of(const std::vector<std::string>& command, const std::string& name, bool is_alone) {
  if (contains(command, "{" + name + "}")) return Channel::kPlaceholder;
  if (std::any_of(command.begin(), command.end(),
                  [&](const std::string& argument) { return match(argument, name) != Match::kNone; }))
    return Channel::kOption;
  return is_alone && contains(command, "{}") ? Channel::kBlank : Channel::kVariable;
}

Status place(const std::vector<std::string>& command, const Variation& variation, Placed& placed) {
  placed = {command, {}};
  for (const auto& [name, value] : variation) {
    switch (channel_of(command, name, variation.size() == 1)) {
      case Channel::kPlaceholder: fill_placeholder("{" + name + "}", value, placed.command); break;
      case Channel::kOption: set_option(name, value, placed.command); break;
      case Channel::kBlank: fill_placeholder("{}", value, placed.command); break;
      case Channel::kVariable:
        if (!is_variable_name(name))
          return Status::error(kBadVariation,
                               fmt::format("\"{0}\" has no place: the command has neither {{{0}}} nor --{0}, and no "
                                           "environment variable can have that name.",
                                           name));
        placed.environment[name] = value;
        break;
    }
  }
  return Status::ok();
}

std::string describe_channel(Channel channel, const std::string& name) {
  switch (channel) {
    case Channel::kPlaceholder: return fmt::format("It was put in for {{{}}}.", name);
    case Channel::kOption: return fmt::format("It was set as the command's option {}.", name);
    case Channel::kBlank: return "It was put in for {}.";
    case Channel::kVariable: break;
  }
  return fmt::format("It was set as the environment variable {0}, as the command has neither {{{0}}} nor --{0}.", name);
}

Status parse_axis(const std::string& text, Axis& axis) {
  const size_t equals = text.find('=');
  axis = {};
  if (equals == std::string::npos || equals == 0)
    return Status::error(kBadVariation, fmt::format("\"{}\" is not NAME=VALUE1,VALUE2.", text));
  axis.name = text.substr(0, equals);
  for (size_t begin = equals + 1; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    std::string value = text.substr(begin, end - begin);
    if (std::find(axis.values.begin(), axis.values.end(), value) != axis.values.end())
      return Status::error(kBadVariation, fmt::format("\"{}\" has the value \"{}\" twice.", text, value));
    axis.values.push_back(std::move(value));
    begin = end + 1;
  }
  return Status::ok();
}

std::vector<Variation> combinations_of(const std::vector<Axis>& axes) {
  std::vector<Variation> combinations = {{}};
  for (const Axis& axis : axes) {
    std::vector<Variation> longer;
    for (const Variation& variation : combinations) {
      for (const std::string& value : axis.values) {
        longer.push_back(variation);
        longer.back().emplace_back(axis.name, value);
      }
    }
    combinations = std::move(longer);
  }
  return combinations;
}

std::string text_of(const Variation& variation) {
  std::string text;
  for (const auto& [name, value] : variation) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text.empty() ? "(as it is)" : text;
}

std::string shell_line(const Placed& placed) {
  std::string line;
  for (const auto& [name, value] : placed.environment) line += fmt::format("{}={} ", name, quoted(value));
  for (const std::string& argument : placed.command) line += quoted(argument) + " ";
  if (!line.empty()) line.pop_back();
  return line;
}

}  // namespace drydock::tune

#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

// How a value gets into a program that somebody else wrote: through its command line, or its environment.

namespace drydock::tune {

/// Code of what a user asked for and what makes no sense: the vendor's number for a bad parameter.
inline constexpr int32_t kBadVariation = 100000;

/// Where a value goes.
enum class Channel {
  kPlaceholder,  ///< {NAME} within the command
  kOption,    ///< --NAME VALUE or --NAME=VALUE (-N VALUE for names of one letter) or NAME=VALUE, which it has already
  kBlank,     ///< {} within the command
  kVariable,  ///< an environment variable NAME
};

/// A name with its value.
using Choice = std::pair<std::string, std::string>;
/// Choices of different names.
using Variation = std::vector<Choice>;

/// Where `name` can be set: the first of the channels that the command has. {} only stands for it where nothing else
/// is varied.
Channel channel_of(const std::vector<std::string>& command, const std::string& name, bool is_alone);

/// A program with its values in place.
struct Placed {
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;  ///< to be set
};
/// An option without a value behind it is a switch: true keeps it, false takes it out. An argument that is nothing but
/// a placeholder disappears with an empty value. kBadVariation with a sentence where a name has no place.
Status place(const std::vector<std::string>& command, const Variation& variation, Placed& placed);

/// "It went into {NAME} of the command." and the like.
std::string describe_channel(Channel channel, const std::string& name);

/// "NAME=V1,V2" of the command line.
struct Axis {
  std::string name;
  std::vector<std::string> values;  ///< at least one, none twice
};
Status parse_axis(const std::string& text, Axis& axis);

/// Every combination of the axes' values, the last axis fastest; one empty variation for no axes.
std::vector<Variation> combinations_of(const std::vector<Axis>& axes);

/// "batch=4 rank=8"; "(as it is)" for none.
std::string text_of(const Variation& variation);

/// One line to paste into a shell: quoted where that is needed, variables in front.
std::string shell_line(const Placed& placed);

}  // namespace drydock::tune

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "replay/settings.h"

// The settings of torch_npu's allocator that a search tries.

namespace drydock::tune {

/// One value of PYTORCH_NPU_ALLOC_CONF.
struct Candidate {
  std::string text;  ///< "expandable_segments:True,..."; empty for the default settings
  replay::Settings settings;
  size_t keys = 0;  ///< that differ from the default
};

struct Grid {
  std::vector<Candidate> candidates;  ///< the defaults first; none twice, none that torch_npu refuses at start
  size_t illegal = 0;                 ///< combinations of the grid's values that torch_npu refuses
  std::string description;            ///< the keys with their values, as text
};

/// Every legal combination of the values that the table in grid.cpp lists, for keys that act on device memory. Keys
/// of `kept`, the run's own value of the variable, that the grid does not vary stay as they are.
Grid make_grid(const std::string& kept, bool has_many_streams);

}  // namespace drydock::tune

#include "tune/grid.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

namespace drydock::tune {
namespace {

// A key with its values; the empty one leaves the key out, which is the allocator's default. The values are powers of
// two around the sizes at which the allocator changes what it does: 2 MiB (small segments), 20 MiB (large ones).
struct Key {
  std::string_view name;
  std::vector<std::string_view> values;
};

const std::vector<Key>& keys() {
  static const std::vector<Key>& table = *new std::vector<Key>{
      {"expandable_segments", {"", "True"}},
      {"max_split_size_mb", {"", "32", "64", "128", "256", "512", "1024", "2048"}},
      {"max_non_split_rounding_mb", {"", "128"}},
      {"garbage_collection_threshold", {"", "0.6", "0.8", "0.95"}},
      {"large_segment_size_mb", {"", "64", "256", "1024"}},
      {"segment_size_mb", {"", "64", "256"}},
      {"roundup_power2_divisions", {"", "4", "16"}},
      {"base_addr_aligned_kb", {"", "0"}},
      {"page_size", {"", "1g"}},
      {"multi_stream_lazy_reclaim", {"", "True"}},
  };
  return table;
}

struct Item {
  std::string key;
  std::string text;  ///< KEY:VALUE
};

// Items are separated by commas, but those within brackets belong to a value.
std::vector<Item> items_of(const std::string& settings) {
  std::vector<Item> items;
  std::string text;
  int depth = 0;
  const auto take = [&] {
    if (!text.empty()) items.push_back({text.substr(0, text.find(':')), text});
    text.clear();
  };
  for (const char letter : settings) {
    if (letter == '[') ++depth;
    if (letter == ']') --depth;
    if (letter == ',' && depth == 0) {
      take();
    } else {
      text += letter;
    }
  }
  take();
  return items;
}

// Combinations whose second part would do nothing: they would only repeat what stands in the table without it.
bool is_idle(const std::vector<std::string_view>& chosen) {
  const auto value = [&](std::string_view name) {
    for (size_t index = 0; index < keys().size(); ++index)
      if (keys()[index].name == name) return chosen[index];
    return std::string_view();
  };
  const bool expandable = !value("expandable_segments").empty();
  const bool is_native_only = !value("max_non_split_rounding_mb").empty() && value("max_split_size_mb").empty();
  const bool is_expandable_only =
      !value("segment_size_mb").empty() || !value("base_addr_aligned_kb").empty() || !value("page_size").empty();
  const bool two_sizes = !value("segment_size_mb").empty() && !value("large_segment_size_mb").empty();
  return is_native_only || (is_expandable_only && !expandable) || two_sizes;
}

}  // namespace

Grid make_grid(const std::string& kept, bool has_many_streams) {
  Grid grid;
  std::vector<Item> others;
  for (Item& item : items_of(kept)) {
    const bool varied = std::any_of(keys().begin(), keys().end(), [&](const Key& key) { return key.name == item.key; });
    if (!varied) others.push_back(std::move(item));
  }
  for (const Key& key : keys()) {
    if (key.name == "multi_stream_lazy_reclaim" && !has_many_streams) continue;
    grid.description += (grid.description.empty() ? "" : ", ") + std::string(key.name) + " (";
    for (size_t index = 0; index < key.values.size(); ++index)
      grid.description += (index == 0 ? "default" : ", " + std::string(key.values[index]));
    grid.description += ")";
  }

  std::set<std::string> seen;
  std::vector<size_t> at(keys().size(), 0);
  while (true) {
    std::vector<std::string_view> chosen;
    for (size_t index = 0; index < at.size(); ++index) chosen.push_back(keys()[index].values[at[index]]);
    Candidate candidate;
    for (size_t index = 0; index < chosen.size(); ++index) {
      if (chosen[index].empty()) continue;
      candidate.text +=
          (candidate.text.empty() ? "" : ",") + std::string(keys()[index].name) + ":" + std::string(chosen[index]);
      ++candidate.keys;
    }
    for (const Item& item : others) candidate.text += (candidate.text.empty() ? "" : ",") + item.text;
    const bool skipped = is_idle(chosen) || (!has_many_streams && !chosen.back().empty());
    if (!skipped) {
      if (!replay::parse_settings(candidate.text, replay::Policy::kNpu, candidate.settings).is_ok()) {
        ++grid.illegal;
      } else if (seen.insert(candidate.text).second) {
        grid.candidates.push_back(std::move(candidate));
      }
    }
    size_t axis = 0;
    while (axis < at.size() && ++at[axis] == keys()[axis].values.size()) at[axis++] = 0;
    if (axis == at.size()) break;
  }
  std::stable_sort(grid.candidates.begin(), grid.candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.keys < b.keys; });
  return grid;
}

}  // namespace drydock::tune

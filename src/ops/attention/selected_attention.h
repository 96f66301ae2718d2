#pragma once

#include <functional>
#include <vector>

#include "ops/attention/problem.h"

// Attention in which every query has a list of the keys that it sees.

namespace drydock::ops::kernels::attention {

/// The keys that one query sees, for the heads that share a key head.
using SelectKeys = std::function<void(int64_t sequence, int64_t key_head, int64_t query, std::vector<int64_t>* keys)>;

/// Results of one query and the heads from `first_head` on, a row for each.
using WriteSelected = std::function<void(int64_t sequence, int64_t first_head, int64_t query, ConstBlock rows,
                                         const float* maxima, const float* sums)>;

void attend_selected(const Problem& problem, const PackedRows& queries, const PackedRows& keys,
                     const PackedRows& values, const SelectKeys& select, const WriteSelected& write);

/// Keys and values have their gradients by key_row.
Gradients attend_selected_backward(const Problem& problem, const ForwardState& state, const SelectKeys& select);

}  // namespace drydock::ops::kernels::attention

#include <string>
#include <utility>
#include <vector>

#include "base/saturating.h"
#include "ops/moe/rows.h"

// Permutation of tokens by a map of tokens to experts. Permuted rows are in expert-major order: all tokens of the first
// expert, then those of the second. Without padding every token has `slots` slots that name its rows, -1 where it has
// fewer experts; with padding every expert has the same number of rows and an index is the row's token.

namespace drydock::ops::kernels {
namespace {

/// One row of permuted tokens.
struct Route {
  int64_t token = 0;
  int64_t expert = 0;
};

struct RoutingMap {
  int64_t tokens = 0;
  int64_t experts = 0;
  std::vector<int64_t> chosen;

  bool at(int64_t token, int64_t expert) const { return chosen[static_cast<size_t>(token * experts + expert)] != 0; }

  /// The pairs that the map marks, in expert-major order.
  std::vector<Route> routes() const {
    std::vector<Route> result;
    for (int64_t expert = 0; expert < experts; ++expert) {
      for (int64_t token = 0; token < tokens; ++token) {
        if (at(token, expert)) result.push_back({token, expert});
      }
    }
    return result;
  }
};

Status read_map(const KernelCall& call, const TensorView& view, RoutingMap* map) {
  if (!view.defined || view.dims.size() != 2) return invalid(call, "routingMap must be (tokens, experts)");
  map->tokens = view.dims[0];
  map->experts = view.dims[1];
  return integers_of(call, view, "routingMap", &map->chosen);
}

/// Probabilities of all pairs; empty where absent.
Status read_probs(const KernelCall& call, const TensorView& view, const RoutingMap& map, std::vector<float>* probs) {
  probs->clear();
  if (!is_present(view)) return Status::ok();
  if (view.numel() != map.tokens * map.experts) return invalid(call, "probs must have the shape of routingMap");
  return read_floats(view, probs) ? Status::ok() : not_computed(call, "probs of this type");
}

float prob_of(const std::vector<float>& probs, const RoutingMap& map, Route route) {
  return probs[static_cast<size_t>(route.token * map.experts + route.expert)];
}

/// The pairs of padded rows: row r belongs to expert r / capacity and to the token that its index names.
Status padded_routes(const KernelCall& call, const std::vector<int64_t>& indices, int64_t experts, int64_t tokens,
                     std::vector<Route>* routes) {
  const auto rows = static_cast<int64_t>(indices.size());
  if (experts <= 0 || rows % experts != 0) return invalid(call, "the rows do not divide among the experts");
  const int64_t capacity = rows / experts;
  routes->clear();
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t token = indices[static_cast<size_t>(row)];
    if (token < 0 || token >= tokens) return device_fault(call, "token " + std::to_string(token) + " is out of range");
    routes->push_back({token, row / capacity});
  }
  return Status::ok();
}

/// The pairs of rows without padding, from slots: token = slot / slots. Rows that no slot names stay {-1, -1}. With a
/// map the expert is the one that the map's order gives the row.
Status slot_routes(const KernelCall& call, const std::vector<int64_t>& indices, int64_t tokens, int64_t rows,
                   const RoutingMap* map, std::vector<Route>* routes) {
  const int64_t slots = tokens > 0 ? static_cast<int64_t>(indices.size()) / tokens : 0;
  if (slots * tokens != static_cast<int64_t>(indices.size())) {
    return invalid(call, "sortedIndices do not divide among the tokens");
  }
  routes->assign(static_cast<size_t>(rows), {-1, -1});
  for (size_t slot = 0; slot < indices.size(); ++slot) {
    const int64_t row = indices[slot];
    if (row == -1) continue;
    if (row < 0 || row >= rows) return device_fault(call, "row " + std::to_string(row) + " is out of range");
    (*routes)[static_cast<size_t>(row)].token = static_cast<int64_t>(slot) / slots;
  }
  if (map == nullptr) return Status::ok();
  const std::vector<Route> marked = map->routes();
  for (size_t row = 0; row < routes->size(); ++row) {
    Route& route = (*routes)[row];
    if (route.token < 0) continue;
    if (row >= marked.size() || marked[row].token != route.token) {
      return invalid(call, "sortedIndices and routingMap do not describe the same rows");
    }
    route.expert = marked[row].expert;
  }
  return Status::ok();
}

/// sum over the rows of each token, weighted.
void sum_rows(const TokenRows& from, const std::vector<Route>& routes, const std::vector<float>& weights,
              const TokenRows& out) {
  const int64_t length = out.length();
  std::vector<std::vector<int64_t>> rows_of(static_cast<size_t>(out.count()));
  for (size_t row = 0; row < routes.size(); ++row) {
    if (routes[row].token >= 0) rows_of[static_cast<size_t>(routes[row].token)].push_back(static_cast<int64_t>(row));
  }
  for_each_row(out.count(), 2 * length, [&](int64_t token, float* sum) {
    std::fill_n(sum, length, 0.0f);
    for (int64_t row : rows_of[static_cast<size_t>(token)]) {
      const float* values = from.read(row, sum + length);
      const float weight = weights.empty() ? 1.0f : weights[static_cast<size_t>(row)];
      for (int64_t k = 0; k < length; ++k) sum[k] += weight * values[k];
    }
    out.write(token, sum);
  });
}

std::vector<float> weights_of(const std::vector<Route>& routes, const std::vector<float>& probs,
                              const RoutingMap& map) {
  std::vector<float> weights;
  if (probs.empty()) return weights;
  for (const Route& route : routes) weights.push_back(route.token < 0 ? 0.0f : prob_of(probs, map, route));
  return weights;
}

/// The probabilities that a map marks, token by token, one for each slot: the device pairs them with the slots as they
/// come, also where a slot holds -1 or a token has fewer experts than slots. Slots beyond have 0.
std::vector<float> slot_weights(const std::vector<float>& probs, const RoutingMap& map, size_t slots) {
  std::vector<float> weights;
  for (size_t pair = 0; pair < probs.size(); ++pair) {
    if (map.chosen[pair] != 0) weights.push_back(probs[pair]);
  }
  weights.resize(slots);
  return weights;
}

Status write_floats(const KernelCall& call, const TensorView& view, const char* name,
                    const std::vector<float>& values) {
  if (!view.defined || !is_real_element(view.dtype)) return not_computed(call, std::string(name) + " is null");
  if (view.numel() != static_cast<int64_t>(values.size())) {
    return invalid(call, std::string(name) + " must have " + std::to_string(values.size()) + " elements; it has " +
                             std::to_string(view.numel()));
  }
  if (!values.empty()) Rows(view, all_axes(view.dims.size())).write<float>(0, values.data());
  return Status::ok();
}

}  // namespace

/// aclnnMoeTokenPermuteWithRoutingMap(tokens, routingMap, probs, numOutTokens, dropAndPad, permuteTokens, permuteProbs,
/// sortedIndices).
Status moe_map_permute(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const TensorView& tokens = call.operand(0);
  const TensorView& out = call.output(0);
  RoutingMap map;
  DRYDOCK_RETURN_IF_ERROR(read_map(call, call.operand(1), &map));
  DRYDOCK_RETURN_IF_ERROR(expect_same_rows(call, tokens, out));
  if (tokens.dims[0] != map.tokens) return invalid(call, "routingMap must have one row for each token");
  std::vector<float> probs;
  DRYDOCK_RETURN_IF_ERROR(read_probs(call, call.operand(2), map, &probs));
  const int64_t rows = out.dims[0];
  std::vector<Route> routes;
  std::vector<int64_t> indices;
  if (call.boolean(0)) {
    // The tokens of each expert, first those that the map marks, then the others, cut to the capacity.
    const int64_t capacity = map.experts > 0 ? call.integer(0) / map.experts : 0;
    if (capacity < 0 || capacity > map.tokens || capacity * map.experts != rows) {
      return invalid(call, "permuteTokensOut must have numOutTokens / experts rows for each expert");
    }
    for (int64_t expert = 0; expert < map.experts; ++expert) {
      std::vector<int64_t> keys;
      for (int64_t token = 0; token < map.tokens; ++token) keys.push_back(map.at(token, expert) ? 0 : 1);
      const std::vector<int64_t> order = stable_order(keys);
      for (int64_t place = 0; place < capacity; ++place) {
        routes.push_back({order[static_cast<size_t>(place)], expert});
        indices.push_back(order[static_cast<size_t>(place)]);
      }
    }
  } else {
    routes = map.routes();
    const int64_t slots = map.tokens > 0 ? rows / map.tokens : 0;
    if (slots * map.tokens != rows || static_cast<int64_t>(routes.size()) > rows) {
      return invalid(call,
                     "permuteTokensOut must have the same number of rows for each token, and all that are marked");
    }
    indices.assign(static_cast<size_t>(rows), -1);
    std::vector<int64_t> used(static_cast<size_t>(map.tokens));
    for (size_t row = 0; row < routes.size(); ++row) {
      int64_t& place = used[static_cast<size_t>(routes[row].token)];
      if (place == slots) return device_fault(call, "a token has more experts than numOutTokens / tokens");
      indices[static_cast<size_t>(routes[row].token * slots + place++)] = static_cast<int64_t>(row);
    }
  }
  DRYDOCK_RETURN_IF_ERROR(write_integers(call, call.output(2), "sortedIndicesOut", indices));
  if (!probs.empty()) {
    std::vector<float> weights = weights_of(routes, probs, map);
    weights.resize(static_cast<size_t>(rows));
    DRYDOCK_RETURN_IF_ERROR(write_floats(call, call.output(1), "permuteProbsOut", weights));
  }
  const TokenRows from(tokens), to(out);
  base::parallel_for(rows, 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      if (row < static_cast<int64_t>(routes.size())) {
        to.copy(row, from, routes[static_cast<size_t>(row)].token);
      } else {
        to.clear(row);
      }
    }
  });
  return Status::ok();
}

/// aclnnMoeTokenPermuteWithRoutingMapGrad(permutedTokensGrad, permutedProbsGrad, sortedIndices, routingMap, experts,
/// tokens, dropAndPad, tokensGrad, probsGrad).
Status moe_map_permute_grad(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  const TensorView& grad = call.operand(0);
  const TensorView& out = call.output(0);
  DRYDOCK_RETURN_IF_ERROR(expect_same_rows(call, grad, out));
  std::vector<int64_t> indices;
  DRYDOCK_RETURN_IF_ERROR(integers_of(call, call.operand(2), "sortedIndices", &indices));
  const int64_t experts = call.integer(0);
  if (out.dims[0] != call.integer(1)) return invalid(call, "tokensGradOut must have one row for each token");
  const bool wants_probs = is_present(call.operand(1)) && is_present(call.output(1));
  RoutingMap map;
  map.tokens = out.dims[0];
  map.experts = experts;
  const bool padded = call.boolean(0);
  if (wants_probs && !padded) DRYDOCK_RETURN_IF_ERROR(read_map(call, call.operand(3), &map));
  if (map.experts != experts || map.tokens != out.dims[0]) return invalid(call, "routingMap must be (tokens, experts)");
  std::vector<Route> routes;
  if (padded) {
    DRYDOCK_RETURN_IF_ERROR(padded_routes(call, indices, experts, out.dims[0], &routes));
    if (static_cast<int64_t>(routes.size()) != grad.dims[0])
      return invalid(call, "there must be an index for each row");
  } else {
    DRYDOCK_RETURN_IF_ERROR(
        slot_routes(call, indices, out.dims[0], grad.dims[0], wants_probs ? &map : nullptr, &routes));
  }
  if (wants_probs) {
    std::vector<float> upstream;
    if (!read_floats(call.operand(1), &upstream) || upstream.size() < routes.size()) {
      return invalid(call, "permutedProbsOutputGrad must have one element for each row");
    }
    if (saturating_product(map.tokens, experts) != call.output(1).numel()) {
      return invalid(call, "probsGradOut must be (tokens, experts)");
    }
    std::vector<float> prob_grads(static_cast<size_t>(map.tokens * experts));
    for (size_t row = 0; row < routes.size(); ++row) {
      if (routes[row].token < 0) continue;
      prob_grads[static_cast<size_t>(routes[row].token * experts + routes[row].expert)] = upstream[row];
    }
    DRYDOCK_RETURN_IF_ERROR(write_floats(call, call.output(1), "probsGradOut", prob_grads));
  }
  sum_rows(TokenRows(grad), routes, {}, TokenRows(out));
  return Status::ok();
}

/// aclnnMoeTokenUnpermuteWithRoutingMap(permutedTokens, sortedIndices, routingMap, probs, paddedMode, restoreShape,
/// unpermutedTokens, outIndex, permuteTokenId, permuteProbs).
Status moe_map_unpermute(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const TensorView& permuted = call.operand(0);
  const TensorView& out = call.output(0);
  DRYDOCK_RETURN_IF_ERROR(expect_same_rows(call, permuted, out));
  std::vector<int64_t> indices;
  DRYDOCK_RETURN_IF_ERROR(integers_of(call, call.operand(1), "sortedIndices", &indices));
  const bool padded = call.boolean(0);
  const bool weighs = is_present(call.operand(3));
  RoutingMap map;
  map.tokens = out.dims[0];
  if (weighs && call.operand(3).dims.size() == 2) map.experts = call.operand(3).dims[1];
  if (weighs && !padded) DRYDOCK_RETURN_IF_ERROR(read_map(call, call.operand(2), &map));
  if (map.tokens != out.dims[0]) return invalid(call, "routingMap must have one row for each token");
  std::vector<float> probs;
  DRYDOCK_RETURN_IF_ERROR(read_probs(call, call.operand(3), map, &probs));
  std::vector<Route> routes;
  if (padded) {
    // Without probabilities the experts do not matter: the index alone names the token.
    const int64_t experts = weighs ? map.experts : 1;
    DRYDOCK_RETURN_IF_ERROR(padded_routes(call, indices, experts, out.dims[0], &routes));
    if (static_cast<int64_t>(routes.size()) != permuted.dims[0]) {
      return invalid(call, "there must be an index for each permuted row");
    }
    const std::vector<int64_t> order = stable_order(indices);
    std::vector<int64_t> tokens;
    for (int64_t row : order) tokens.push_back(indices[static_cast<size_t>(row)]);
    DRYDOCK_RETURN_IF_ERROR(write_integers(call, call.output(1), "outIndex", order));
    DRYDOCK_RETURN_IF_ERROR(write_integers(call, call.output(2), "permuteTokenId", tokens));
  } else {
    DRYDOCK_RETURN_IF_ERROR(slot_routes(call, indices, out.dims[0], permuted.dims[0], nullptr, &routes));
    const int64_t slots = map.tokens > 0 ? static_cast<int64_t>(indices.size()) / map.tokens : 1;
    std::vector<int64_t> tokens;
    for (size_t slot = 0; slot < indices.size(); ++slot) tokens.push_back(static_cast<int64_t>(slot) / slots);
    if (is_present(call.output(1))) DRYDOCK_RETURN_IF_ERROR(write_integers(call, call.output(1), "outIndex", indices));
    if (is_present(call.output(2))) {
      DRYDOCK_RETURN_IF_ERROR(write_integers(call, call.output(2), "permuteTokenId", tokens));
    }
  }
  std::vector<float> weights;
  if (weighs) {
    std::vector<float> listed = padded ? weights_of(routes, probs, map) : slot_weights(probs, map, indices.size());
    if (is_present(call.output(3))) {
      DRYDOCK_RETURN_IF_ERROR(write_floats(call, call.output(3), "permuteProbs", listed));
    }
    weights = padded ? std::move(listed) : std::vector<float>(routes.size());
    for (size_t slot = 0; !padded && slot < indices.size(); ++slot) {
      if (indices[slot] >= 0) weights[static_cast<size_t>(indices[slot])] = listed[slot];
    }
  }
  sum_rows(TokenRows(permuted), routes, weights, TokenRows(out));
  return Status::ok();
}

/// aclnnMoeTokenUnpermuteWithRoutingMapGrad(unpermutedTokensGrad, outIndex, permuteTokenId, routingMap, permutedTokens,
/// probs, dropAndPad, restoreShape, permutedTokensGrad, probsGrad): row outIndex[i] has the gradient of token
/// permuteTokenId[i]; without padding torch_npu gives sortedIndices for both, and slot i belongs to token i / slots.
Status moe_map_unpermute_grad(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  const TensorView& grad = call.operand(0);
  const TensorView& out = call.output(0);
  DRYDOCK_RETURN_IF_ERROR(expect_same_rows(call, grad, out));
  std::vector<int64_t> rows;
  std::vector<int64_t> tokens;
  DRYDOCK_RETURN_IF_ERROR(integers_of(call, call.operand(1), "outIndex", &rows));
  DRYDOCK_RETURN_IF_ERROR(integers_of(call, call.operand(2), "permuteTokenId", &tokens));
  if (rows.size() != tokens.size()) return invalid(call, "outIndex and permuteTokenId must have the same length");
  const bool weighs = is_present(call.operand(5));
  const bool padded = call.boolean(0);
  if (!padded) {
    const int64_t slots = grad.dims[0] > 0 ? static_cast<int64_t>(rows.size()) / grad.dims[0] : 0;
    if (slots * grad.dims[0] != static_cast<int64_t>(rows.size())) {
      return invalid(call, "outIndex does not divide among the tokens");
    }
    for (size_t slot = 0; slot < tokens.size(); ++slot) tokens[slot] = static_cast<int64_t>(slot) / slots;
  }
  RoutingMap map;
  std::vector<float> probs;
  if (weighs) {
    DRYDOCK_RETURN_IF_ERROR(read_map(call, call.operand(3), &map));
    DRYDOCK_RETURN_IF_ERROR(read_probs(call, call.operand(5), map, &probs));
    if (!is_present(call.operand(4)) || call.operand(4).dims[0] != out.dims[0]) {
      return invalid(call, "probs need permutedTokens with as many rows as their gradient");
    }
    DRYDOCK_RETURN_IF_ERROR(expect_same_rows(call, call.operand(4), grad));
    if (map.tokens != grad.dims[0]) return invalid(call, "routingMap must have one row for each token");
  }
  const std::vector<Route> marked = weighs && !padded ? map.routes() : std::vector<Route>{};
  const int64_t capacity = weighs && map.experts > 0 ? out.dims[0] / map.experts : 0;
  std::vector<Route> routes(static_cast<size_t>(out.dims[0]), Route{-1, -1});
  for (size_t at = 0; at < rows.size(); ++at) {
    const int64_t row = rows[at];
    if (row == -1) continue;
    if (row < 0 || row >= out.dims[0] || tokens[at] < 0 || tokens[at] >= grad.dims[0]) {
      return device_fault(call, "outIndex or permuteTokenId is out of range");
    }
    Route& route = routes[static_cast<size_t>(row)];
    route.token = tokens[at];
    if (!weighs) continue;
    if (padded) {
      if (capacity == 0 || row / capacity >= map.experts) return invalid(call, "rows do not divide among the experts");
      route.expert = row / capacity;
    } else {
      if (row >= static_cast<int64_t>(marked.size()) || marked[static_cast<size_t>(row)].token != route.token) {
        return invalid(call, "outIndex and routingMap do not describe the same rows");
      }
      route.expert = marked[static_cast<size_t>(row)].expert;
    }
  }
  const std::vector<float> weights = weights_of(routes, probs, map);
  std::vector<float> dots(weighs ? routes.size() : 0);
  const TokenRows gradients(grad), to(out), values(weighs ? call.operand(4) : grad);
  const int64_t length = to.length();
  for_each_row(to.count(), 3 * length, [&](int64_t row, float* buffer) {
    const auto at = static_cast<size_t>(row);
    if (routes[at].token < 0) return to.clear(row);
    const float* upstream = gradients.read(routes[at].token, buffer);
    float* scaled = buffer + length;
    for (int64_t k = 0; k < length; ++k) scaled[k] = weighs ? weights[at] * upstream[k] : upstream[k];
    to.write(row, scaled);
    if (!weighs) return;
    const float* own = values.read(row, scaled + length);
    double total = 0;
    for (int64_t k = 0; k < length; ++k) total += static_cast<double>(own[k]) * static_cast<double>(upstream[k]);
    dots[at] = static_cast<float>(total);
  });
  if (!weighs || !is_present(call.output(1))) return Status::ok();
  std::vector<float> prob_grads(static_cast<size_t>(map.tokens * map.experts));
  for (size_t row = 0; row < routes.size(); ++row) {
    if (routes[row].token < 0) continue;
    prob_grads[static_cast<size_t>(routes[row].token * map.experts + routes[row].expert)] = dots[row];
  }
  return write_floats(call, call.output(1), "probsGradOut", prob_grads);
}

}  // namespace drydock::ops::kernels

#pragma once

#include <vector>

#include "base/instruction_set.h"
#include "ops/norm/column_sums.h"
#include "ops/norm/row_access.h"

// Channels: dimension 1 of a tensor (samples, channels, ...), by which batch norm and group norm compute. The elements
// of one sample and channel are called a plane; a sample is a row of planes.

namespace drydock::ops::kernels {

struct ChannelPlanes {
  int64_t samples = 0;
  int64_t channels = 0;
  int64_t size = 0;  ///< elements of a plane
  Dims axes;         ///< of a sample

  int64_t row() const { return channels * size; }
  /// Elements of one channel in all samples.
  int64_t count() const { return samples * size; }
};

/// Fails below rank 2.
Status planes_of(const KernelCall& call, const TensorView& x, ChannelPlanes* planes);

/// An optional vector of one value for each channel; without it `otherwise`.
Status channel_values(const KernelCall& call, const TensorView& view, int64_t count, double otherwise,
                      std::vector<double>* values);

/// A view that may be undefined: real, and of `count` elements.
Status expect_vector(const KernelCall& call, const TensorView& view, int64_t count, const char* what);

/// Sums over the elements of each channel. `begin(row, scratch)` reads a sample into scratch (`buffers` rows of it) and
/// returns a function of the channel and the element's number in the row: the term.
template <class C, class Begin>
std::vector<double> sum_channels(const ChannelPlanes& planes, int buffers, Begin&& begin) {
  return sum_over_rows<C>(
      planes.samples, planes.channels, planes.row() * buffers, [&](int64_t row, C* scratch, C* sums) {
        const auto term = begin(row, scratch);
        base::vectorized([=, channels = planes.channels, size = planes.size] {
          if (size == 1) {
#pragma GCC ivdep
            for (int64_t c = 0; c < channels; ++c) sums[c] += term(c, c);
            return;
          }
          for (int64_t c = 0; c < channels; ++c) {
            sums[c] += static_cast<C>(sum_of<C>(size, [=](int64_t k) { return term(c, c * size + k); }));
          }
        });
      });
}

template <class C>
std::vector<C> converted(const std::vector<double>& values) {
  return std::vector<C>(values.begin(), values.end());
}

/// Mean and biased variance of each channel.
template <class C>
void channel_moments(const ChannelPlanes& planes, const TensorView& x, std::vector<double>* mean,
                     std::vector<double>* variance) {
  const RowSource<C> from(x, planes.axes);
  const auto count = static_cast<double>(planes.count());
  *mean = sum_channels<C>(planes, 1, [&](int64_t row, C* scratch) {
    return [values = from.read(row, scratch)](int64_t, int64_t k) { return values[k]; };
  });
  for (double& value : *mean) value /= count;
  const std::vector<C> centres = converted<C>(*mean);
  *variance = sum_channels<C>(planes, 1, [&](int64_t row, C* scratch) {
    return [values = from.read(row, scratch), centre = centres.data()](int64_t c, int64_t k) {
      return (values[k] - centre[c]) * (values[k] - centre[c]);
    };
  });
  for (double& value : *variance) value /= count;
}

/// out = of(channel, values of the inputs...) element by element; all views have one shape.
template <class C, size_t N, class Op>
void map_channels(const ChannelPlanes& planes, const TensorView& out, const std::array<const TensorView*, N>& inputs,
                  Op of) {
  std::vector<RowSource<C>> from;
  for (const TensorView* input : inputs) from.emplace_back(*input, planes.axes);
  const RowTarget<C> to(out, planes.axes);
  for_each_row<C>(planes.samples, planes.row(), static_cast<int>(N) + 1, [&](int64_t row, C* scratch) {
    std::array<const C*, N> values{};
    for (size_t i = 0; i < N; ++i) values[i] = from[i].read(row, scratch + static_cast<int64_t>(i) * planes.row());
    C* const results = to.start(row, scratch + static_cast<int64_t>(N) * planes.row());
    base::vectorized([=, channels = planes.channels, size = planes.size] {
      const auto at = [=](int64_t c, int64_t k) {
        if constexpr (N == 1) {
          return of(c, values[0][k]);
        } else {
          return of(c, values[0][k], values[1][k]);
        }
      };
      if (size == 1) {
#pragma GCC ivdep
        for (int64_t c = 0; c < channels; ++c) results[c] = at(c, c);
        return;
      }
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t end = (c + 1) * size;
#pragma GCC ivdep
        for (int64_t k = c * size; k < end; ++k) results[k] = at(c, k);
      }
    });
    to.finish(row, results);
  });
}

}  // namespace drydock::ops::kernels

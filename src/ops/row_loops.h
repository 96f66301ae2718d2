#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "ops/kernel_access.h"

// Loops over the rows of views on many threads. Rows whose elements lie far apart, next to those of their neighbours
// (the columns of a matrix), are read and written a group at a time.

namespace drydock::ops::kernels {

namespace detail {

// Elements that one thread takes at least.
inline constexpr int64_t kRowGrain = 16384;
// Neighbouring rows that are read together: a line of the cache of 4-byte elements.
inline constexpr int64_t kRowGroup = 16;

/// How rows are dealt out: groups of neighbours if they are interleaved, else one by one.
struct RowGroups {
  RowGroups(const Rows& rows, bool in_groups) {
    const Dims& outer = rows.outer();
    across = in_groups ? outer[outer.size() - 1] : 1;
    size = in_groups ? std::min(kRowGroup, across) : 1;
    per_across = (across + size - 1) / size;
    count = across == 0 ? 0 : rows.count() / across * per_across;
    grain = std::max<int64_t>(1, kRowGrain / std::max<int64_t>(1, rows.length() * size));
  }
  int64_t first(int64_t group) const { return group / per_across * across + group % per_across * size; }
  int64_t rows(int64_t group) const { return std::min(size, across - group % per_across * size); }

  int64_t across, size, per_across, count, grain;
};

}  // namespace detail

/// Calls `body(row, values, results)` for every row of `from`: its values, and room for the results that become the
/// row of that number of `to`. Rows may have different lengths in `from` and `to`.
template <class C, class R, class Body>
void transform_rows(const Rows& from, const Rows& to, Body&& body) {
  const bool in_groups = from.interleaved() && to.interleaved();
  const detail::RowGroups groups(from, in_groups);
  const int64_t length = from.length();
  const int64_t result_length = to.length();
  base::parallel_for(groups.count, groups.grain, [&](int64_t begin, int64_t end) {
    const auto values = std::make_unique_for_overwrite<C[]>(static_cast<size_t>(groups.size * length));
    const auto results = std::make_unique_for_overwrite<R[]>(static_cast<size_t>(groups.size * result_length));
    for (int64_t group = begin; group < end; ++group) {
      const int64_t first = groups.first(group);
      if (!in_groups) {
        body(first, from.read<C>(first, values.get()), results.get());
        to.write<R>(first, results.get());
        continue;
      }
      const int64_t rows = groups.rows(group);
      from.read_group<C>(first, rows, 0, length, values.get(), length);
      for (int64_t k = 0; k < rows; ++k) {
        body(first + k, static_cast<const C*>(values.get() + k * length), results.get() + k * result_length);
      }
      to.write_group<R>(first, rows, results.get(), result_length);
    }
  });
}

/// Calls `body(row, values)` for every row.
template <class C, class Body>
void for_each_row(const Rows& rows, Body&& body) {
  const detail::RowGroups groups(rows, rows.interleaved());
  const int64_t length = rows.length();
  base::parallel_for(groups.count, groups.grain, [&](int64_t begin, int64_t end) {
    const auto values = std::make_unique_for_overwrite<C[]>(static_cast<size_t>(groups.size * length));
    for (int64_t group = begin; group < end; ++group) {
      const int64_t first = groups.first(group);
      if (!rows.interleaved()) {
        body(first, rows.read<C>(first, values.get()));
        continue;
      }
      const int64_t members = groups.rows(group);
      rows.read_group<C>(first, members, 0, length, values.get(), length);
      for (int64_t k = 0; k < members; ++k) body(first + k, static_cast<const C*>(values.get() + k * length));
    }
  });
}

/// A fold without its type, so that the loop over rows is compiled once for all.
template <class C, class A>
struct PlainFold {
  template <class Fold>
  explicit PlainFold(const Fold& fold)
      : self(&fold),
        part_of([](const void* self, const C* values, int64_t count, int64_t start) -> A {
          return static_cast<const Fold*>(self)->part(values, count, start);
        }),
        join_of(
            [](const void* self, const A& a, const A& b) -> A { return static_cast<const Fold*>(self)->join(a, b); }) {}
  A part(const C* values, int64_t count, int64_t start) const { return part_of(self, values, count, start); }
  A join(const A& a, const A& b) const { return join_of(self, a, b); }

  const void* self;
  A (*part_of)(const void* self, const C* values, int64_t count, int64_t start);
  A (*join_of)(const void* self, const A& a, const A& b);
};

/// results[row] = the parts of the row, each folded by `fold.part(values, count, start)`, then joined in order by
/// `fold.join(a, b)`. The parts are a function of the shape alone: results do not depend on the threads. Empty rows
/// give `fold.part(nullptr, 0, 0)`.
template <class C, class A>
std::vector<A> fold_rows_in_parts(const Rows& rows, const PlainFold<C, A>& fold) {
  const bool in_groups = rows.interleaved();
  const detail::RowGroups groups(rows, in_groups);
  const int64_t length = rows.length();
  // A group of parts fits a first-level cache; a part of a dense row is mostly read where it is.
  const int64_t part = in_groups ? 256 : 32768;
  const int64_t parts = std::max<int64_t>(1, (length + part - 1) / part);
  std::vector<A> results(static_cast<size_t>(rows.count()));
  const auto fold_part = [&](int64_t row, int64_t number, C* buffer) -> A {
    const int64_t start = number * part;
    const int64_t count = std::min(part, length - start);
    return fold.part(count > 0 ? rows.read<C>(row, start, start + count, buffer) : buffer, count, start);
  };
  if (!in_groups && parts > 1 && rows.count() < 64) {
    // Few long rows: threads share each of them.
    std::vector<A> partial(static_cast<size_t>(rows.count() * parts));
    base::parallel_for(rows.count() * parts, 1, [&](int64_t begin, int64_t end) {
      const auto buffer = std::make_unique_for_overwrite<C[]>(static_cast<size_t>(part));
      for (int64_t k = begin; k < end; ++k) {
        partial[static_cast<size_t>(k)] = fold_part(k / parts, k % parts, buffer.get());
      }
    });
    for (int64_t row = 0; row < rows.count(); ++row) {
      A total = partial[static_cast<size_t>(row * parts)];
      for (int64_t k = 1; k < parts; ++k) total = fold.join(total, partial[static_cast<size_t>(row * parts + k)]);
      results[static_cast<size_t>(row)] = total;
    }
    return results;
  }
  base::parallel_for(groups.count, groups.grain, [&](int64_t begin, int64_t end) {
    const auto buffer = std::make_unique_for_overwrite<C[]>(
        static_cast<size_t>(groups.size * std::min(part, std::max<int64_t>(length, 1))));
    for (int64_t group = begin; group < end; ++group) {
      const int64_t first = groups.first(group);
      if (!in_groups) {
        A total = fold_part(first, 0, buffer.get());
        for (int64_t k = 1; k < parts; ++k) total = fold.join(total, fold_part(first, k, buffer.get()));
        results[static_cast<size_t>(first)] = total;
        continue;
      }
      const int64_t members = groups.rows(group);
      for (int64_t start = 0; start < length; start += part) {
        const int64_t count = std::min(part, length - start);
        rows.read_group<C>(first, members, start, start + count, buffer.get(), count);
        for (int64_t k = 0; k < members; ++k) {
          A& total = results[static_cast<size_t>(first + k)];
          const A next = fold.part(buffer.get() + k * count, count, start);
          total = start == 0 ? next : fold.join(total, next);
        }
      }
    }
  });
  return results;
}

}  // namespace drydock::ops::kernels

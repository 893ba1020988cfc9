#include "kernels/factors/low_rank.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/gradients.h"
#include "support/sanitized.h"
#include "support/simd_targets.h"

namespace terngrad::low_rank_test {
namespace {

using testing::bits_of;
using testing::gaussian;

constexpr std::int64_t kChunk = 4096;

struct Shape {
  std::int64_t rows, columns;
  int rank;
};

std::vector<Shape> shapes() {
  std::vector<Shape> all = {{1, 1, 1},    {25, 20, 4},   {500, 50, 4},       {64, 16, 2},
                            {65, 17, 3},  {63, 15, 5},   {300, 10, 8},       {7, 4096, 4},
                            {6, 4097, 1}, {5, 9000, 2},  {3, 8192 + 255, 7}, {130, 257, 32},
                            {5, 5, 5},    {40, 512, 16}, {16385, 3, 1},      {16384 + 70, 33, 2}};
  if (testing::kIsSanitized) all.resize(8);
  return all;
}

std::vector<float> values_of(const Shape& s, std::uint64_t seed) {
  return gaussian(static_cast<std::size_t>(s.rows * s.columns), seed);
}
std::vector<float> factor(std::int64_t length, int rank, std::uint64_t seed) {
  return gaussian(static_cast<std::size_t>(length * rank), seed);
}

/// Sum along a row in the order of low_rank.h; at(i) returns product i.
template <class At>
double sum_along_row(std::int64_t count, const At& at) {
  double total = 0;
  for (std::int64_t chunk = 0; chunk < count; chunk += kChunk) {
    std::array<double, 16> lanes{};
    for (std::int64_t i = chunk; i < std::min(count, chunk + kChunk); ++i)
      lanes[static_cast<std::size_t>(i % 16)] += at(i);
    for (const std::size_t step : {8u, 4u, 2u, 1u}) {
      for (std::size_t j = 0; j < step; ++j) lanes[j] += lanes[j + step];
    }
    total += lanes[0];
  }
  return total;
}

template <class At>
double sum_along_column(std::int64_t count, const At& at) {
  std::array<double, 256> slots{};
  for (std::int64_t block = 0; block * 64 < count; ++block) {
    double sum = 0;
    for (std::int64_t i = block * 64; i < std::min(count, block * 64 + 64); ++i) sum += at(i);
    slots[static_cast<std::size_t>(block % 256)] += sum;
  }
  for (std::size_t step = 128; step > 0; step /= 2) {
    for (std::size_t j = 0; j < step; ++j) slots[j] += slots[j + step];
  }
  return slots[0];
}

double product(float a, float b) { return static_cast<double>(a) * static_cast<double>(b); }

std::vector<float> expected_columns(const Shape& s, const std::vector<float>& m, const std::vector<float>& q) {
  std::vector<float> p;
  for (int j = 0; j < s.rank; ++j) {
    for (std::int64_t row = 0; row < s.rows; ++row) {
      p.push_back(static_cast<float>(sum_along_row(s.columns, [&](std::int64_t c) {
        return product(m[static_cast<std::size_t>(row * s.columns + c)],
                       q[static_cast<std::size_t>(j * s.columns + c)]);
      })));
    }
  }
  return p;
}

std::vector<float> expected_rows(const Shape& s, const std::vector<float>& m, const std::vector<float>& p) {
  std::vector<float> q;
  for (int j = 0; j < s.rank; ++j) {
    for (std::int64_t c = 0; c < s.columns; ++c) {
      q.push_back(static_cast<float>(sum_along_column(s.rows, [&](std::int64_t row) {
        return product(m[static_cast<std::size_t>(row * s.columns + c)], p[static_cast<std::size_t>(j * s.rows + row)]);
      })));
    }
  }
  return q;
}

std::vector<float> times_columns(const Shape& s, const std::vector<float>& m, const std::vector<float>& q,
                                 int threads = 1) {
  std::vector<float> p(static_cast<std::size_t>(s.rows * s.rank), -7);
  Stream stream(Device::cpu(), threads);
  std::vector<float> own_q = q;
  const FactorTask task{.m = {m.data(), s.rows, s.columns}, .rank = s.rank, .p = p.data(), .q = own_q.data()};
  LowRankProducts().times_columns({&task, 1}, stream);
  EXPECT_EQ(own_q, q);
  return p;
}

std::vector<float> times_rows(const Shape& s, const std::vector<float>& m, const std::vector<float>& p,
                              int threads = 1) {
  std::vector<float> q(static_cast<std::size_t>(s.columns * s.rank), -7);
  Stream stream(Device::cpu(), threads);
  std::vector<float> own_p = p;
  const FactorTask task{.m = {m.data(), s.rows, s.columns}, .rank = s.rank, .p = own_p.data(), .q = q.data()};
  LowRankProducts().times_rows({&task, 1}, stream);
  EXPECT_EQ(own_p, p);
  return q;
}

void orthonormalize(std::vector<float>& p, std::int64_t rows, int rank) {
  Stream stream(Device::cpu(), 1);
  const FactorTask task{.m = {nullptr, rows, 1}, .rank = rank, .p = p.data()};
  LowRankProducts().orthonormalize({&task, 1}, stream);
}

TEST(LowRankProducts, HaveTheBitsOfTheirOrder) {
  for (const Shape& s : shapes()) {
    const std::vector<float> m = values_of(s, 1);
    const std::vector<float> q = factor(s.columns, s.rank, 2);
    const std::vector<float> p = factor(s.rows, s.rank, 3);
    const auto along_rows = bits_of(expected_columns(s, m, q));
    const auto along_columns = bits_of(expected_rows(s, m, p));
    const std::string what =
        std::to_string(s.rows) + " x " + std::to_string(s.columns) + ", rank " + std::to_string(s.rank);
    testing::for_each_target([&](const std::string& target) {
      EXPECT_EQ(bits_of(times_columns(s, m, q)), along_rows) << what << ", " << target;
      EXPECT_EQ(bits_of(times_rows(s, m, p)), along_columns) << what << ", " << target;
    });
    for (const int threads : {2, 3, 4}) {
      EXPECT_EQ(bits_of(times_columns(s, m, q, threads)), along_rows) << what << ", " << threads;
      EXPECT_EQ(bits_of(times_rows(s, m, p, threads)), along_columns) << what << ", " << threads;
    }
  }
}

TEST(LowRankProducts, WorkspaceServesTasksOfAllShapes) {
  const std::vector<Shape> all = {{200, 150, 4}, {7, 3, 2}, {90, 200, 3}};
  std::vector<std::vector<float>> matrices;
  std::vector<std::vector<float>> ps;
  std::vector<std::vector<float>> qs;
  std::vector<FactorTask> tasks;
  for (const Shape& s : all) {
    matrices.push_back(values_of(s, 1));
    qs.push_back(factor(s.columns, s.rank, 2));
    ps.emplace_back(static_cast<std::size_t>(s.rows * s.rank));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    tasks.push_back({.m = {matrices[i].data(), all[i].rows, all[i].columns},
                     .rank = all[i].rank,
                     .p = ps[i].data(),
                     .q = qs[i].data()});
  }
  LowRankProducts products;
  Stream stream(Device::cpu(), 2);
  products.times_columns(tasks, stream);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(bits_of(ps[i]), bits_of(times_columns(all[i], matrices[i], factor(all[i].columns, all[i].rank, 2))));
  }
  products.times_rows(tasks, stream);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(bits_of(qs[i]), bits_of(times_rows(all[i], matrices[i], ps[i])));
  }
  std::vector<std::vector<float>> alone = ps;
  products.orthonormalize(tasks, stream);
  for (std::size_t i = 0; i < all.size(); ++i) {
    orthonormalize(alone[i], all[i].rows, all[i].rank);
    EXPECT_EQ(bits_of(ps[i]), bits_of(alone[i]));
  }
}

TEST(LowRankProducts, WhatIsNotFiniteShows) {
  const Shape s{70, 33, 2};
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> m = values_of(s, 1);
    m[40 * 33 + 32] = bad;
    const std::vector<float> p = times_columns(s, m, factor(s.columns, s.rank, 2));
    for (std::size_t i = 0; i < p.size(); ++i) EXPECT_EQ(std::isfinite(p[i]), i % 70 != 40) << i;
  }
}

TEST(LowRankProducts, RefuseImpossibleRanks) {
  LowRankProducts products;
  Stream stream;
  for (const int rank : {0, kMaxRank + 1}) {
    const FactorTask task{.m = {nullptr, 2, 2}, .rank = rank};
    EXPECT_THROW(products.times_columns({&task, 1}, stream), InvalidArgument);
    EXPECT_THROW(products.times_rows({&task, 1}, stream), InvalidArgument);
    EXPECT_THROW(products.orthonormalize({&task, 1}, stream), InvalidArgument);
    const LowRankTask product{.sizes = {2, 2, rank}};
    EXPECT_THROW(products.write_products({&product, 1}, nullptr, stream), InvalidArgument);
  }
}

double dot(const std::vector<float>& p, std::int64_t rows, int i, int j) {
  double sum = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    sum += product(p[static_cast<std::size_t>(i * rows + row)], p[static_cast<std::size_t>(j * rows + row)]);
  }
  return sum;
}

TEST(Orthonormalize, ColumnsAreOrthonormal) {
  for (const auto& [rows, rank] : {std::pair{1, 1}, {5, 5}, {25, 4}, {4097, 8}, {9216, 4}, {100, 32}}) {
    std::vector<float> p = factor(rows, rank, 7);
    // A nearly dependent column, for which the second pass is needed.
    if (rank > 3) {
      for (std::int64_t row = 0; row < rows; ++row) {
        const auto at = static_cast<std::size_t>(row);
        const auto n = static_cast<std::size_t>(rows);
        p[3 * n + at] = p[at] + p[n + at] + 1e-3f * p[3 * n + at];
      }
    }
    orthonormalize(p, rows, rank);
    for (int i = 0; i < rank; ++i) {
      for (int j = 0; j <= i; ++j)
        EXPECT_NEAR(dot(p, rows, i, j), i == j ? 1 : 0, 1e-6) << rows << ": " << i << ", " << j;
    }
  }
}

TEST(Orthonormalize, HasTheBitsOfItsOrder) {
  constexpr std::int64_t kRows = 5000;
  const std::vector<float> given = factor(kRows, 2, 11);
  std::vector<float> p = given;
  orthonormalize(p, kRows, 2);
  std::vector<float> a(given.begin(), given.begin() + kRows);
  std::vector<float> b(given.begin() + kRows, given.end());
  const auto scale = [](std::vector<float>& x) {
    const double norm = std::sqrt(sum_along_row(kRows, [&](std::int64_t i) {
      return product(x[static_cast<std::size_t>(i)], x[static_cast<std::size_t>(i)]);
    }));
    for (float& value : x) value = static_cast<float>(static_cast<double>(value) / norm);
  };
  for (int pass = 0; pass < 2; ++pass) {
    scale(a);
    const double c = sum_along_row(
        kRows, [&](std::int64_t i) { return product(a[static_cast<std::size_t>(i)], b[static_cast<std::size_t>(i)]); });
    for (std::size_t i = 0; i < b.size(); ++i) {
      b[i] = static_cast<float>(static_cast<double>(b[i]) - c * static_cast<double>(a[i]));
    }
    scale(b);
  }
  a.insert(a.end(), b.begin(), b.end());
  EXPECT_EQ(bits_of(p), bits_of(a));
}

TEST(Orthonormalize, ColumnsThatVanishBecomeZeros) {
  constexpr std::size_t kRows = 50;
  const std::vector<float> first = gaussian(kRows, 3);
  const auto with = [&](const std::vector<float>& second) {
    std::vector<float> p = first;
    p.insert(p.end(), second.begin(), second.end());
    orthonormalize(p, kRows, 2);
    return p;
  };
  std::vector<float> multiple = first;
  for (float& value : multiple) value *= 4;
  std::vector<float> bad = first;
  bad[9] = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& second : {multiple, std::vector<float>(kRows, 0.0f), bad}) {
    const std::vector<float> p = with(second);
    EXPECT_NEAR(dot(p, kRows, 0, 0), 1, 1e-6);
    for (std::size_t i = kRows; i < p.size(); ++i) EXPECT_EQ(p[i], 0) << i;
  }
}

TEST(LowRankElements, AreThoseOfTheProductAnywhere) {
  for (const Shape& s : {Shape{9, 17, 3}, Shape{300, 5, 1}, Shape{2, 5000, 4}, Shape{33, 40, 32}}) {
    const std::vector<float> p = factor(s.rows, s.rank, 1);
    const std::vector<float> q = factor(s.columns, s.rank, 2);
    std::vector<float> expected;
    for (std::int64_t row = 0; row < s.rows; ++row) {
      for (std::int64_t c = 0; c < s.columns; ++c) {
        double sum = 0;
        for (int j = 0; j < s.rank; ++j) {
          sum += product(p[static_cast<std::size_t>(j * s.rows + row)], q[static_cast<std::size_t>(j * s.columns + c)]);
        }
        expected.push_back(static_cast<float>(sum));
      }
    }
    testing::for_each_target([&](const std::string& target) {
      const std::size_t n = expected.size();
      for (const auto& [first, last] :
           {std::pair<std::size_t, std::size_t>{0, n}, {3, n}, {n / 2 + 1, n - 1}, {5, 5}}) {
        std::vector<float> out(last - first);
        low_rank_elements(p.data(), s.rows, q.data(), s.columns, s.rank, static_cast<std::int64_t>(first), out);
        const std::vector<float> part(expected.begin() + static_cast<std::ptrdiff_t>(first),
                                      expected.begin() + static_cast<std::ptrdiff_t>(last));
        EXPECT_EQ(bits_of(out), bits_of(part)) << target << ", from " << first;
      }
    });
  }
}

TEST(LowRankProducts, AreWrittenOrSubtractedUnlessFlaggedOrSkipped) {
  const Shape s{70, 90, 3};
  const std::vector<float> p = factor(s.rows, s.rank, 1);
  const std::vector<float> q = factor(s.columns, s.rank, 2);
  const std::vector<float> from = values_of(s, 3);
  std::vector<float> product(from.size());
  low_rank_elements(p.data(), s.rows, q.data(), s.columns, s.rank, 0, product);
  std::vector<float> rest(from.size());
  for (std::size_t i = 0; i < rest.size(); ++i) rest[i] = from[i] - product[i];
  const std::vector<float> untouched(from.size(), 8);
  LowRankProducts products;
  for (const int threads : {1, 3}) {
    Stream stream(Device::cpu(), threads);
    const auto written = [&](const float* minuend, const float* flag, const std::uint32_t* skip) {
      std::vector<float> out = untouched;
      const LowRankTask task{.sizes = {s.rows, s.columns, s.rank},
                             .p = p.data(),
                             .q = q.data(),
                             .from = minuend,
                             .flag = flag,
                             .out = out.data()};
      products.write_products({&task, 1}, skip, stream);
      return out;
    };
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    constexpr float kFine = 0;
    constexpr std::uint32_t kSkipped = 1;
    constexpr std::uint32_t kDone = 0;
    EXPECT_EQ(bits_of(written(nullptr, nullptr, nullptr)), bits_of(product));
    EXPECT_EQ(bits_of(written(from.data(), &kFine, &kDone)), bits_of(rest));
    EXPECT_EQ(written(from.data(), &kNan, nullptr), untouched);
    EXPECT_EQ(written(from.data(), nullptr, &kSkipped), untouched);
    std::vector<float> in_place = from;
    const LowRankTask task{.sizes = {s.rows, s.columns, s.rank},
                           .p = p.data(),
                           .q = q.data(),
                           .from = in_place.data(),
                           .out = in_place.data()};
    products.write_products({&task, 1}, nullptr, stream);
    EXPECT_EQ(bits_of(in_place), bits_of(rest));
  }
}

}  // namespace
}  // namespace terngrad::low_rank_test

// The measured bits and errors in the table of docs/codecs.md match the codecs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "compress/exchange/compressed_all_reduce.h"
#include "compress/plan/codec_registry.h"
#include "support/gradients.h"

namespace terngrad::codec_page_test {
namespace {

constexpr std::int64_t kElements = 1 << 19;

struct Measured {
  std::string spec;
  double bits = 0;   // bits that a worker sends per element
  double error = 0;  // |Q(g) - g|^2 / |g|^2
};

std::string row_text(const Measured& row) {
  char text[200];
  std::snprintf(text, sizeof text, "| `%s` | %.3f | %.3g |", row.spec.c_str(), row.bits, row.error);
  return text;
}

/// Rows "| `spec` | bits | error |" of docs/codecs.md.
std::vector<Measured> rows_of_the_page() {
  std::ifstream file("docs/codecs.md");
  EXPECT_TRUE(file) << "the working directory is not the project's";
  std::vector<Measured> rows;
  for (std::string line; std::getline(file, line);) {
    char spec[200];
    Measured row;
    if (std::sscanf(line.c_str(), "| `%199[^`]` | %lf | %lf |", spec, &row.bits, &row.error) != 3) continue;
    row.spec = spec;
    rows.push_back(row);
  }
  return rows;
}

/// Measures a codec with two workers that all-gather their messages.
Measured measured(const std::string& spec) {
  Layout layout;
  // Low-rank codecs need a matrix.
  const bool is_low_rank = make_codec(spec, {})->low_rank().has_value();
  layout.add("w",
             is_low_rank ? std::vector<std::int64_t>{1024, kElements / 1024} : std::vector<std::int64_t>{kElements});
  CompressedAllReduceOptions options;
  options.codecs.codec = spec;
  options.algorithm = ExchangeAlgorithm::kAllGather;
  CompressedAllReduce exchange(layout, make_worker_group(2, make_self_communicator()), options);
  const testing::Tensors first = testing::gaussian_tensors(layout, 1);
  const testing::Tensors second = testing::gaussian_tensors(layout, 2);
  const std::vector<TensorTable> gradients = {first.table, second.table};
  std::vector<float> mean(static_cast<std::size_t>(kElements));
  const ExchangeReport report = exchange.exchange(gradients, TensorTable(layout, mean.data()), 0);
  std::vector<float> decoded(static_cast<std::size_t>(kElements));
  exchange.decode_local(0, 0, decoded);
  double error = 0;
  double square = 0;
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    const auto g = static_cast<double>(first.values[0][i]);
    error += (static_cast<double>(decoded[i]) - g) * (static_cast<double>(decoded[i]) - g);
    square += g * g;
  }
  return {spec, 8.0 * static_cast<double>(report.workers().sent) / 2 / static_cast<double>(kElements), error / square};
}

// Gradients use the C math library, whose last bits vary: compares with tolerances, not the printed digits.
TEST(CodecPage, BitsAndErrorsAreThoseOfTheCodecs) {
  std::set<std::string> codecs;
  for (const Measured& row : rows_of_the_page()) {
    const Measured found = measured(row.spec);
    EXPECT_NEAR(row.bits, found.bits, 0.002) << row_text(found);
    EXPECT_NEAR(row.error, found.error, 0.006 * found.error) << row_text(found);
    codecs.insert(parse_codec_spec(row.spec).name);
  }
  EXPECT_THAT(codecs, ::testing::IsSupersetOf(codec_names()));
}

}  // namespace
}  // namespace terngrad::codec_page_test

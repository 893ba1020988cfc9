// Codecs against the vectors that the reference in numpy wrote (tests/reference/vectors.py says what their lines mean).
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "compress/codec/coder.h"
#include "compress/exchange/compressed_all_reduce.h"
#include "compress/plan/codec_registry.h"
#include "kernels/random/philox.h"
#include "kernels/runtime/errors.h"
#include "support/exchanges.h"

namespace terngrad::reference_vectors_test {
namespace {

using testing::Tensors;

/// The lines of a vector: of a key that comes for each worker, one behind the other.
using Vector = std::map<std::string, std::vector<std::vector<std::string>>>;

std::vector<Vector> vectors_of(const std::string& name) {
  std::ifstream file("tests/reference/vectors/" + name + ".txt");
  EXPECT_TRUE(file) << name << ": the working directory is not the project's";
  std::vector<Vector> vectors;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (key.empty() || key[0] == '#') continue;
    if (key == "spec") vectors.emplace_back();
    std::vector<std::string> values;
    for (std::string value; words >> value;) values.push_back(value);
    vectors.back()[key].push_back(values);
  }
  return vectors;
}

std::int64_t number(const Vector& vector, const std::string& key, std::size_t index = 0) {
  return static_cast<std::int64_t>(std::stoull(vector.at(key)[0][index]));
}

float element(std::int64_t i, std::int64_t exponent, std::uint32_t r) {
  const auto m = static_cast<double>(static_cast<std::int64_t>(r / 256) - (1 << 23));
  const auto power = [&](std::int64_t e) { return std::ldexp(1.0, static_cast<int>(e)); };
  switch (i % 8) {
    case 4:
      return static_cast<float>(m * power(exponent - 23 - r % 32));
    case 5:
      return static_cast<float>(std::floor(m / (1 << 19)) * power(exponent - 4));
    case 6:
      return r % 2 == 1 ? -0.0f : 0.0f;
    case 7:
      return static_cast<float>(m * power(-149));
    default:
      return static_cast<float>(m * power(exponent - 23));
  }
}

std::string hex(std::uint64_t value, int digits) {
  std::string text;
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) text += "0123456789abcdef"[value >> shift & 15];
  return text;
}

std::vector<std::string> hex_of(std::span<const float> values) {
  std::vector<std::string> words;
  for (const float value : values) words.push_back(hex(std::bit_cast<std::uint32_t>(value), 8));
  return words;
}

/// The hash of all, and the first eight.
std::vector<std::string> digest(std::span<const float> values) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const float value : values) {
    for (int shift = 0; shift < 32; shift += 8) {
      hash = (hash ^ (std::bit_cast<std::uint32_t>(value) >> shift & 255)) * 0x100000001B3u;
    }
  }
  std::vector<std::string> words = hex_of(values.first(std::min<std::size_t>(values.size(), 8)));
  words.insert(words.begin(), hash == 0 ? std::string(16, '0') : hex(hash, 16));
  return words;
}

/// The values of a worker's line.
std::vector<std::string> line_of(const Vector& vector, const std::string& key, std::size_t worker) {
  const std::vector<std::string>& line = vector.at(key).at(worker);
  return {line.begin() + 1, line.end()};
}

/// The vector's tensor is the second one, behind as many elements as its draw offset says.
Layout layout_of(const Vector& vector) {
  std::vector<std::int64_t> shape;
  for (std::size_t d = 0; d < vector.at("shape")[0].size(); ++d) shape.push_back(number(vector, "shape", d));
  Layout layout;
  layout.add("before", {number(vector, "offset")});
  layout.add("w", shape);
  return layout;
}

/// The workers' gradients of a step, zeros before the vector's tensor.
std::vector<Tensors> gradients_of(const Vector& vector, const Layout& layout, std::uint64_t step) {
  const auto seed = static_cast<std::uint64_t>(number(vector, "seed"));
  const auto num_workers = static_cast<int>(number(vector, "workers"));
  std::vector<Tensors> tensors;
  for (int worker = 0; worker < num_workers; ++worker) {
    const DrawKey key{seed, step, static_cast<std::uint32_t>(worker), DrawPurpose::kSyntheticData};
    const std::int64_t exponent = std::stol(vector.at("exponents")[0][static_cast<std::size_t>(worker)]);
    std::vector<float> values;
    for (std::int64_t i = 0; i < layout.segment(1).num_elements; ++i) {
      values.push_back(element(i, exponent, draw32(key, static_cast<std::uint64_t>(i))));
    }
    if (vector.contains("set")) {
      for (const auto& line : vector.at("set")) {
        if (std::stoi(line[0]) != worker) continue;
        values[std::stoul(line[1])] =
            std::bit_cast<float>(static_cast<std::uint32_t>(std::stoul(line[2], nullptr, 16)));
      }
    }
    tensors.push_back(
        Tensors(layout, {std::vector<float>(static_cast<std::size_t>(number(vector, "offset"))), values}));
  }
  return tensors;
}

void expect_vector(const Vector& vector, const std::string& spec) {
  SCOPED_TRACE(spec);
  const auto num_workers = static_cast<int>(number(vector, "workers"));
  const Layout layout = layout_of(vector);
  ASSERT_EQ(layout.segment(1).draw_offset, number(vector, "offset"));
  const Slice slice{1, number(vector, "cut"), number(vector, "cut", 1)};
  const auto seed = static_cast<std::uint64_t>(number(vector, "seed"));
  const auto step = static_cast<std::uint64_t>(number(vector, "step"));

  const std::vector<Tensors> tensors = gradients_of(vector, layout, step);
  std::vector<TensorTable> tables;
  for (const Tensors& worker : tensors) tables.push_back(worker.table);

  const std::vector<std::int64_t>& shape = layout.segment(1).shape;
  const auto codec = make_codec(spec, {.num_workers = num_workers, .columns = shape.size() > 1 ? shape.back() : 0});
  EXPECT_EQ(codec->wire_id(), number(vector, "wire"));
  EXPECT_EQ(codec->record_format(PayloadForm::kNatural), number(vector, "wire", 1));
  const auto bytes = static_cast<std::size_t>(codec->max_payload_bytes(slice, PayloadForm::kNatural));
  const auto workers = static_cast<std::size_t>(num_workers);
  std::vector<std::vector<std::uint64_t>> room(workers, std::vector<std::uint64_t>(bytes / 8 + 1));
  PayloadSlots slots{.encoded = {slice}, .aggregated = {slice}, .num_payloads = num_workers};
  for (auto& words : room) slots.outgoing.push_back(reinterpret_cast<std::uint8_t*>(words.data()));
  slots.outgoing_bytes.resize(workers);
  slots.incoming.assign(slots.outgoing.begin(), slots.outgoing.end());
  const CoderSetup setup{
      .layout = layout,
      .workers = {.num_workers = num_workers, .first_local_worker = 0, .num_local_workers = num_workers},
      .seed = seed,
      .drops_nonfinite_steps = false};
  const auto coder = codec->make_coder(setup, {1}, slots);
  Stream stream(Device::cpu(), 2);
  NonfiniteReport report;
  coder->measure(tables, {step, nullptr}, stream);
  std::vector<std::vector<float>> local;
  for (int worker = 0; worker < num_workers; ++worker) {
    const std::span<const float> row = coder->local_row(worker);
    if (codec->traits().max_scaler > 0) {
      EXPECT_EQ(hex_of(row), line_of(vector, "local", static_cast<std::size_t>(worker))) << worker;
    }
  }
  coder->combine_scalers(&report, nullptr, nullptr, stream);
  coder->encode(tables, {step, nullptr}, stream);
  slots.incoming_bytes = slots.outgoing_bytes;
  for (std::size_t worker = 0; worker < workers; ++worker) {
    std::string payload;
    for (std::int64_t i = 0; i < slots.outgoing_bytes[worker]; ++i) payload += hex(slots.outgoing[worker][i], 2);
    EXPECT_EQ(payload, vector.at("payload").at(worker).at(1)) << worker;
    const Codec::ScalerRange range = codec->scaler_range(slice);
    const auto scalers = coder->sent_scalers(static_cast<int>(worker))
                             .subspan(static_cast<std::size_t>(range.first), static_cast<std::size_t>(range.count));
    std::vector<float> decoded(static_cast<std::size_t>(slice.count));
    const EncodedSlice encoded{
        .slice = slice,
        .format = codec->record_format(PayloadForm::kNatural),
        .scalers = scalers,
        .payload = {slots.outgoing[worker], static_cast<std::size_t>(slots.outgoing_bytes[worker])},
        .key = StepKey{seed, step},
        .draw_offset = layout.segment(1).draw_offset};
    EXPECT_NO_THROW(codec->check(encoded));
    codec->decode(encoded, decoded);
    EXPECT_EQ(digest(decoded), line_of(vector, "decoded", worker)) << worker;
  }
  Tensors mean = testing::blank_tensors(layout);
  coder->aggregate(mean.table, AggregateUnit::kMean, stream);
  coder->finish(mean.table, {&slice, 1}, {step, nullptr}, stream);
  const std::span<const float> of_slice =
      std::span<const float>(mean.values[1])
          .subspan(static_cast<std::size_t>(slice.first), static_cast<std::size_t>(slice.count));
  EXPECT_EQ(digest(of_slice), vector.at("mean")[0]);
}

/// The specs of a file that the registry knows and workers send without a memory. Others are returned.
std::set<std::string> expect_file(const std::string& name) {
  std::set<std::string> others;
  int num_checked = 0;
  for (const Vector& vector : vectors_of(name)) {
    const std::string spec = vector.at("spec")[0][0];
    bool is_known = vector.at("memory")[0][0] == "none";
    try {
      make_codec(spec, {});
    } catch (const InvalidArgument&) {
      is_known = false;
    }
    if (is_known) {
      expect_vector(vector, spec);
      ++num_checked;
    } else {
      others.insert(spec);
    }
  }
  EXPECT_GE(num_checked, 3) << name;
  return others;
}

/// Checks vectors with a memory after their last step: decoded messages, their mean and the memory.
void expect_memory(const Vector& vector, const std::string& spec) {
  SCOPED_TRACE(spec);
  const auto num_workers = static_cast<int>(number(vector, "workers"));
  const auto workers = static_cast<std::size_t>(num_workers);
  const Layout layout = layout_of(vector);
  CompressedAllReduceOptions options;
  options.seed = static_cast<std::uint64_t>(number(vector, "seed"));
  const std::vector<std::string>& memory = vector.at("memory")[0];
  options.on_nonfinite = memory[0] == "ef21" ? OnNonfinite::kSkip : OnNonfinite::kZero;
  options.codecs.codec = spec;
  CompressedAllReduce exchange(layout, make_worker_group(num_workers, make_self_communicator()), options,
                               parse_memory(memory[0] + ":decay=" + memory[1]));
  Tensors mean = testing::blank_tensors(layout);
  const auto first_step = static_cast<std::uint64_t>(number(vector, "step"));
  const auto end = first_step + static_cast<std::uint64_t>(number(vector, "steps"));
  for (std::uint64_t step = first_step; step < end; ++step) {
    const std::vector<Tensors> gradients = gradients_of(vector, layout, step);
    exchange.exchange(testing::tables(gradients, 0, num_workers), mean.table, step);
  }
  const auto first = static_cast<std::size_t>(number(vector, "cut"));
  const auto count = static_cast<std::size_t>(number(vector, "cut", 1));
  const auto cut_of = [&](std::span<const float> tensor) { return tensor.subspan(first, count); };
  const auto n = static_cast<std::size_t>(layout.segment(1).num_elements);
  for (std::size_t worker = 0; worker < workers; ++worker) {
    std::vector<float> decoded(n);
    exchange.decode_local(static_cast<int>(worker), 1, decoded);
    EXPECT_EQ(digest(cut_of(decoded)), line_of(vector, "decoded", worker)) << worker;
    std::vector<float> state(n);
    Stream stream;
    exchange.memory()->read_state(static_cast<int>(worker), 1, state, stream);
    EXPECT_EQ(digest(cut_of(state)), line_of(vector, "state", worker)) << worker;
  }
  EXPECT_EQ(digest(cut_of(mean.values[1])), vector.at(memory[0] == "ef21" ? "estimate" : "mean")[0]);
}

TEST(ReferenceVectors, OfMemories) {
  int num_checked = 0;
  for (const Vector& vector : vectors_of("memories")) {
    const std::string& spec = vector.at("spec")[0][0];
    try {
      make_codec(spec, {});
    } catch (const InvalidArgument&) {
      continue;
    }
    expect_memory(vector, spec);
    ++num_checked;
  }
  EXPECT_GE(num_checked, 3);
}

TEST(ReferenceVectors, OfFloats) { EXPECT_TRUE(expect_file("floats").empty()); }

TEST(ReferenceVectors, OfTernary) { EXPECT_TRUE(expect_file("ternary").empty()); }

TEST(ReferenceVectors, OfQsgd) { EXPECT_TRUE(expect_file("qsgd").empty()); }

TEST(ReferenceVectors, OfEden) { EXPECT_TRUE(expect_file("eden").empty()); }
TEST(ReferenceVectors, OfNatural) { EXPECT_TRUE(expect_file("natural").empty()); }

TEST(ReferenceVectors, OfSign) { EXPECT_TRUE(expect_file("sign").empty()); }

TEST(ReferenceVectors, OfOnebit) { EXPECT_TRUE(expect_file("onebit").empty()); }

TEST(ReferenceVectors, OfTopK) { EXPECT_TRUE(expect_file("topk").empty()); }

TEST(ReferenceVectors, OfFp8) { EXPECT_TRUE(expect_file("fp8").empty()); }

}  // namespace
}  // namespace terngrad::reference_vectors_test

// Tests that every Codec must pass. Closed forms and golden bytes are in each codec's own tests.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compress/codec/codec.h"
#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/codec_messages.h"
#include "support/gradients.h"
#include "support/simd_targets.h"

namespace terngrad::testing {

/// Makes the codec for a run of `num_workers` workers.
using MakeCodec = std::function<std::unique_ptr<Codec>(int num_workers)>;

/// Checks payload sizes against traits() and max_payload_bytes(), and decode() against aggregate() of one message.
inline void check_sizes_and_decoding(const MakeCodec& make) {
  const auto codec = make(1);
  const CodecTraits traits = codec->traits();
  for (const std::int64_t count : {1, 2, 15, 16, 17, 63, 64, 65, 4095, 4096, 4097, 9000}) {
    SCOPED_TRACE(count);
    Layout layout;
    layout.add("w", {count});
    const Tensors tensors = gaussian_tensors(layout, static_cast<std::uint64_t>(count));
    const Slice slice{0, 0, count};
    const Sent sent = send(*codec, layout, tensors, 0, {slice});
    const auto bytes = static_cast<std::int64_t>(sent.slices[0].payload.size());
    const std::int64_t most = codec->max_payload_bytes(slice, PayloadForm::kNatural);
    if (traits.fixed_size) {
      EXPECT_EQ(bytes, most);
      EXPECT_GE(8.0 * static_cast<double>(bytes) + 1e-6, traits.bits_per_element * static_cast<double>(count));
    } else {
      EXPECT_LE(bytes, most);
    }
    // Tolerance in bits: padding to 4 bytes (fixed size; codes of 3 bits are in groups of eight before), or to 8 with
    // 32 bits per chunk (variable size). A sparse message has at least one element with its index in each run, and a
    // header if its size varies.
    const double filled = traits.is_sparse    ? 32 + 64 * 2 + (traits.fixed_size ? 0 : 128)
                          : traits.fixed_size ? 32 + (traits.bits_per_element == 3 ? 7 * 3 : 0)
                                              : 96 + 32 * static_cast<double>((count + 4095) / 4096);
    EXPECT_LT(8.0 * static_cast<double>(bytes), traits.bits_per_element * static_cast<double>(count) + filled + 8);
    ASSERT_NO_THROW(codec->check(sent.slices[0]));
    std::vector<float> decoded(static_cast<std::size_t>(count));
    codec->decode(sent.slices[0], decoded);
    EXPECT_EQ(bits_of(decoded), bits_of(aggregated(*codec, sent.slices)));
    decoded.pop_back();
    EXPECT_THROW(codec->decode(sent.slices[0], decoded), InvalidArgument);
  }
}

/// Contracts B1 and B2 for one tensor: payloads and means are bit-identical for all SIMD targets and thread counts,
/// means also for every division into slices.
inline void check_same_bits(const MakeCodec& make) {
  constexpr std::uint32_t kWorkers = 3;
  const auto codec = make(kWorkers);
  const Layout layout = small_layout();
  std::vector<Tensors> tensors;
  for (std::uint32_t w = 0; w < kWorkers; ++w) tensors.push_back(gaussian_tensors(layout, 20 + w));
  // Shared scalers; empty if the codec shares none.
  std::vector<float> shared;
  if (codec->sharing() != ScalerSharing::kNone) {
    shared.assign(static_cast<std::size_t>(first_scaler(*codec, layout, layout.num_segments())),
                  codec->traits().max_scaler > 0 ? 3.5f : 0.0f);
  }
  const auto messages = [&](const std::vector<Slice>& slices, int num_threads) {
    std::vector<Sent> sent;
    for (std::uint32_t w = 0; w < kWorkers; ++w) {
      sent.push_back(send(*codec, layout, tensors[w], w, slices, shared, PayloadForm::kNatural, num_threads));
    }
    return sent;
  };
  const auto mean_of = [&](const std::vector<Sent>& sent, std::size_t slice, int num_threads) {
    std::vector<EncodedSlice> of_slice;
    for (const Sent& worker : sent) of_slice.push_back(worker.slices[slice]);
    return bits_of(aggregated(*codec, of_slice, AggregateUnit::kMean, num_threads));
  };
  const std::vector<Slice> whole = {{0, 0, 9000}};
  const std::vector<Sent> expected = messages(whole, 1);
  const std::vector<std::uint32_t> mean = mean_of(expected, 0, 1);
  for_each_target([&](const std::string& target) {
    for (const int num_threads : {1, 3}) {
      const std::vector<Sent> sent = messages(whole, num_threads);
      for (std::size_t w = 0; w < sent.size(); ++w) {
        EXPECT_EQ(sent[w].payload(0), expected[w].payload(0)) << target << " " << num_threads;
      }
      EXPECT_EQ(mean_of(sent, 0, num_threads), mean) << target << " " << num_threads;
    }
  });
  if (codec->traits().grain_elements > kChunkElements) return;  // slices cannot be cut at chunk boundaries
  const std::vector<Sent> cut = messages({{0, 8192, 808}, {0, 0, 4096}, {0, 4096, 4096}}, 2);
  std::vector<std::uint32_t> joined;
  for (const std::size_t slice : {1u, 2u, 0u}) {
    const std::vector<std::uint32_t> part = mean_of(cut, slice, 2);
    joined.insert(joined.end(), part.begin(), part.end());
  }
  EXPECT_EQ(joined, mean);
}

/// Unbiased codecs draw different random numbers for equal tensors and for equal chunks of one tensor.
inline void check_draws(const MakeCodec& make) {
  const auto codec = make(1);
  if (!codec->traits().unbiased || codec->traits().is_exact) return;
  constexpr std::size_t kElements = 3 * kChunkElements;
  std::vector<float> values = gaussian(kChunkElements, 91);
  for (std::size_t i = kChunkElements; i < kElements; ++i) values.push_back(values[i - kChunkElements]);
  Layout layout;
  layout.add("first", {kElements});
  layout.add("second", {kElements});
  const Tensors tensors(layout, {values, values});
  const Sent sent = send(*codec, layout, tensors, 0, {{0, 0, kElements}, {1, 0, kElements}});
  std::vector<float> of_first(kElements), of_second(kElements);
  codec->decode(sent.slices[0], of_first);
  codec->decode(sent.slices[1], of_second);
  EXPECT_NE(bits_of(of_first), bits_of(of_second)) << "two tensors are drawn alike";
  const auto chunk = [&](std::size_t index) {
    const auto begin = of_first.begin() + static_cast<std::ptrdiff_t>(index * kChunkElements);
    return bits_of(std::vector<float>(begin, begin + kChunkElements));
  };
  EXPECT_NE(chunk(0), chunk(1)) << "two chunks are drawn alike";
  EXPECT_NE(chunk(1), chunk(2)) << "two chunks are drawn alike";
}

/// check() refuses wrong lengths and formats. Flipped payload bits are refused or decoded, without access out of bounds
/// (checked by the address sanitizer).
inline void check_damage(const MakeCodec& make) {
  const auto codec = make(1);
  const Layout layout = small_layout();
  const Tensors tensors = gaussian_tensors(layout, 5);
  const Sent sent = send(*codec, layout, tensors, 0, {{0, 0, 9000}});
  const EncodedSlice& good = sent.slices[0];
  const auto refuses = [&](std::span<const std::uint64_t> words, std::size_t bytes, std::uint8_t format) {
    EncodedSlice damaged = good;
    damaged.format = format;
    damaged.payload = {reinterpret_cast<const std::uint8_t*>(words.data()), bytes};
    try {
      codec->check(damaged);
    } catch (const CommunicationError&) {
      return true;
    }
    std::vector<float> decoded(9000);
    codec->decode(damaged, decoded);
    aggregated(*codec, {damaged});
    return false;
  };
  const std::size_t size = good.payload.size();
  std::vector<std::uint64_t> words = sent.words[0];
  words.resize(words.size() + 2);
  EXPECT_FALSE(refuses(words, size, good.format));
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, size / 2, size - 4, size - 1, size + 1, size + 4}) {
    EXPECT_TRUE(refuses(words, bytes, good.format)) << bytes << " of " << size;
  }
  const auto lanes = codec->record_format(PayloadForm::kLanes);
  for (int format = 0; format < 256; ++format) {
    const auto number = static_cast<std::uint8_t>(format);
    if (number == good.format || (codec->traits().summable && number == lanes)) continue;
    EXPECT_TRUE(refuses(words, size, number)) << format;
  }
  for (std::size_t bit = 0; bit < 8 * size; bit += 8 * size / 100 + 1) {
    std::vector<std::uint64_t> changed = words;
    changed[bit / 64] ^= std::uint64_t{1} << (bit % 64);
    refuses(changed, size, good.format);
  }
}

/// AggregateUnit::kSums gives whole numbers if the codec is summable, else is refused.
inline void check_sums(const MakeCodec& make) {
  const auto codec = make(2);
  const Layout layout = small_layout();
  const Sent sent = send(*codec, layout, gaussian_tensors(layout, 6), 0, {{0, 0, 9000}});
  const std::vector<EncodedSlice> both = {sent.slices[0], sent.slices[0]};
  if (!codec->traits().summable) {
    EXPECT_THROW(aggregated(*codec, both, AggregateUnit::kSums), InvalidArgument);
    return;
  }
  for (const float sum : aggregated(*codec, both, AggregateUnit::kSums)) EXPECT_EQ(sum, std::round(sum));
}

/// Bias of the decoded values over 100 steps, in standard errors of the mean: the maximum over three weighted sums of
/// the elements, which detect a shift, a shrinkage and clipping of the largest elements.
inline double bias_in_deviations(const Codec& codec) {
  constexpr std::int64_t kElements = 2048;
  constexpr std::uint64_t kDraws = 100;
  Layout layout;
  layout.add("w", {kElements});
  const Tensors tensors = gaussian_tensors(layout, 77);
  const std::vector<float>& g = tensors.values[0];
  const std::function<double(float)> weights[] = {[](float) { return 1.0; }, [](float x) { return x < 0 ? -1.0 : 1.0; },
                                                  [](float x) {
                                                    return std::fabs(x) < 2.5f ? 0.0 : x < 0 ? -1.0 : 1.0;
                                                  }};
  std::vector<double> sums(std::size(weights), 0.0);
  std::vector<double> squares(std::size(weights), 0.0);
  std::vector<float> decoded(kElements);
  for (std::uint64_t step = 0; step < kDraws; ++step) {
    const Sent sent = send(codec, layout, tensors, 0, {{0, 0, kElements}}, {}, PayloadForm::kNatural, 1, step);
    codec.decode(sent.slices[0], decoded);
    for (std::size_t k = 0; k < std::size(weights); ++k) {
      double error = 0;
      for (std::size_t i = 0; i < g.size(); ++i) {
        error += weights[k](g[i]) * (static_cast<double>(decoded[i]) - static_cast<double>(g[i]));
      }
      sums[k] += error;
      squares[k] += error * error;
    }
  }
  double worst = 0;
  for (std::size_t k = 0; k < std::size(weights); ++k) {
    const double mean = sums[k] / kDraws;
    const double variance = (squares[k] / kDraws - mean * mean) / kDraws;
    if (mean != 0) worst = std::max(worst, variance > 0 ? std::fabs(mean) / std::sqrt(variance) : 1e9);
  }
  return worst;
}

/// Expects unbiased decoding if traits() promise it. @returns the bias in standard errors
inline double check_bias(const MakeCodec& make) {
  const auto codec = make(1);
  const double deviations = bias_in_deviations(*codec);
  if (codec->traits().unbiased) {
    EXPECT_LT(deviations, 5);
  }
  return deviations;
}

/// Runs all checks.
inline void check_codec(const MakeCodec& make) {
  SCOPED_TRACE(make(1)->name() + " " + make(1)->options_text());
  check_sizes_and_decoding(make);
  check_same_bits(make);
  check_damage(make);
  check_sums(make);
  check_draws(make);
  check_bias(make);
}

}  // namespace terngrad::testing

#include "compress/codecs/randomk_codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <sstream>

#include "compress/coding/host_coder.h"
#include "compress/coding/scaled_runs.h"
#include "kernels/codes/code_sum.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/statistics/scaler.h"
#include "kernels/statistics/statistics.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/element_type.h"
#include "kernels/tensor/philox.h"

namespace terngrad {
namespace {

constexpr std::uint8_t kDrawnFormat = 25;
constexpr std::int64_t kKeyBytes = 8;

/// K of a tensor and step.
std::uint64_t selection_key(std::uint64_t seed, std::uint64_t step, std::int64_t draw_offset) {
  const auto block = draw_block({seed, step, 0, DrawPurpose::kSelect}, static_cast<std::uint64_t>(draw_offset) / 4);
  return block[0] | std::uint64_t{block[1]} << 32;
}

/// The element of each group that travels, of groups in ascending order.
class DrawnPlaces {
 public:
  DrawnPlaces(std::uint64_t selection, std::int64_t group_elements)
      : key_{selection, 0, 0, DrawPurpose::kSelect}, group_elements_(static_cast<std::uint64_t>(group_elements)) {}

  /// Counted from the tensor's start.
  std::int64_t of_group(std::int64_t group) {
    const auto number = static_cast<std::uint64_t>(group);
    if (number / 4 != block_number_) {
      block_number_ = number / 4;
      block_ = draw_block(key_, block_number_);
    }
    // group_elements is below 2^31.
    const std::uint64_t within = block_[number % 4] * group_elements_ >> 32;
    return static_cast<std::int64_t>(number * group_elements_ + within);
  }

 private:
  DrawKey key_;
  std::uint64_t group_elements_;
  std::uint64_t block_number_ = ~std::uint64_t{0};
  std::array<std::uint32_t, 4> block_ = {};
};

/// The groups that a range of a tensor's elements touches.
struct Groups {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
Groups groups_of(std::int64_t first, std::int64_t count, std::int64_t group_elements) {
  if (count == 0) return {first / group_elements, 0};
  return {first / group_elements, (first + count - 1) / group_elements - first / group_elements + 1};
}

std::int64_t value_bytes(SparseValues values) { return values == SparseValues::kFloat32 ? 4 : 2; }

float read_value(SparseValues values, const std::uint8_t* payload, std::int64_t index) {
  if (values == SparseValues::kFloat32) return reinterpret_cast<const float*>(payload + kKeyBytes)[index];
  return from_bfloat16(reinterpret_cast<const std::uint16_t*>(payload + kKeyBytes)[index]);
}

std::uint64_t key_of(const EncodedSlice& encoded) {
  std::uint64_t key = 0;
  std::memcpy(&key, encoded.payload.data(), sizeof key);
  return key;
}

class RandomKCoder final : public HostCoder {
 public:
  RandomKCoder(const RandomKCodec& codec, const CoderSetup& setup, const std::vector<int>& segments,
               PayloadSlots& slots)
      : HostCoder(codec, setup, segments, slots),
        codec_(codec),
        plan_(statistics_slices(setup.layout, segments, /*block_elements=*/0)) {}

 private:
  void measure_worker(const TensorTable& gradient, std::span<float> row, Stream& stream) override {
    nonfinite_flags(plan_, {&gradient, 1}, codec_.first_nonfinite(), row, stream);
  }

  std::int64_t encode_slice(const EncodeTask& task, Stream& stream) override {
    const Slice& slice = task.slice;
    const std::int64_t bytes = codec_.max_payload_bytes(slice, PayloadForm::kNatural);
    const std::int64_t draw_offset = setup().layout.segment(slice.segment).draw_offset;
    const std::uint64_t selection = selection_key(task.key.seed, task.key.step, draw_offset);
    std::memset(task.payload, 0, static_cast<std::size_t>(bytes));
    std::memcpy(task.payload, &selection, sizeof selection);
    if (!task.is_finite) return bytes;
    constexpr std::int64_t kGrainGroups = 4096;
    const Groups groups = groups_of(slice.first, slice.count, codec_.group_elements());
    const void* const elements = task.gradient.data(slice);
    parallel_for(stream.num_threads(), groups.count, kGrainGroups, [&](std::int64_t begin, std::int64_t end) {
      DrawnPlaces places(selection, codec_.group_elements());
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t place = places.of_group(groups.first + i) - slice.first;
        if (place < 0 || place >= slice.count) continue;
        write_value(task.payload, i, codec_.sent(element_as_float(elements, task.gradient.type(), place)));
      }
    });
    return bytes;
  }

  void write_value(std::uint8_t* payload, std::int64_t index, float value) const {
    if (codec_.options().values == SparseValues::kFloat32) {
      reinterpret_cast<float*>(payload + kKeyBytes)[index] = value;
    } else {
      reinterpret_cast<std::uint16_t*>(payload + kKeyBytes)[index] = to_bfloat16(value);
    }
  }

  /// Adds up the values, which are of the same elements in all workers, and puts each sum where it belongs.
  void decode_mean(std::span<const EncodedSlice> sent, float* out, Stream& stream) const override {
    const std::uint64_t selection = key_of(sent[0]);
    if (std::ranges::any_of(sent, [&](const EncodedSlice& worker) { return key_of(worker) != selection; })) {
      return HostCoder::decode_mean(sent, out, stream);  // of other steps: no exchange sends such
    }
    constexpr std::int64_t kGrainChunks = 4;
    const Slice& slice = sent[0].slice;
    const std::int64_t q = codec_.group_elements();
    const SparseValues values = codec_.options().values;
    const std::int64_t first_group = slice.first / q;
    const auto num_workers = static_cast<int>(sent.size());
    parallel_for(stream.num_threads(), (slice.count + kChunkElements - 1) / kChunkElements, kGrainChunks,
                 [&](std::int64_t begin, std::int64_t end) {
                   Stream own;
                   DrawnPlaces places(selection, q);
                   std::array<float, kChunkElements + 1> means;  // of groups; a chunk touches no more
                   for (std::int64_t chunk = begin; chunk < end; ++chunk) {
                     const std::int64_t first = slice.first + chunk * kChunkElements;
                     const std::int64_t count = std::min(kChunkElements, slice.first + slice.count - first);
                     const Groups groups = groups_of(first, count, q);
                     const auto leaf = [&](int worker, std::int64_t at, std::span<float> decoded) {
                       const std::uint8_t* const payload = sent[static_cast<std::size_t>(worker)].payload.data();
                       for (std::size_t i = 0; i < decoded.size(); ++i) {
                         const std::int64_t group = groups.first + at + static_cast<std::int64_t>(i);
                         decoded[i] = read_value(values, payload, group - first_group);
                       }
                     };
                     aggregate_tree(num_workers, groups.count, leaf, 1.0f / static_cast<float>(num_workers),
                                    means.data(), own);
                     float* const mean = out + (first - slice.first);
                     std::fill_n(mean, count, 0.0f);
                     for (std::int64_t i = 0; i < groups.count; ++i) {
                       const std::int64_t place = places.of_group(groups.first + i) - first;
                       if (place >= 0 && place < count) mean[place] = means[static_cast<std::size_t>(i)];
                     }
                   }
                 });
  }

  const RandomKCodec& codec_;
  StatisticsPlan plan_;
};

}  // namespace

RandomKCodec::RandomKCodec(const RandomKOptions& options) : options_(options) {
  TERNGRAD_REQUIRE(options.density >= kMinDensity && options.density <= 1, "[randomk] density must be from ",
                   kMinDensity, " to 1, got ", options.density);
  const double group = 1 / options.density;
  TERNGRAD_REQUIRE(std::fabs(group - std::rint(group)) <= std::min(1e-9 * group, 0.01),
                   "[randomk] density must be one over an integer, got ", options.density, ", one over ", group);
  TERNGRAD_REQUIRE(options.num_workers >= 1, "[randomk] num_workers must be at least 1, got ", options.num_workers);
  group_elements_ = std::llrint(group);
  // Larger magnitudes travel as no smaller ones.
  std::uint32_t low = 0;
  std::uint32_t high = std::bit_cast<std::uint32_t>(HUGE_VALF);
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (std::isfinite(sent(std::bit_cast<float>(middle)))) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  first_nonfinite_ = low;
}

float RandomKCodec::sent(float element) const {
  const float scaled = options_.is_unbiased ? static_cast<float>(group_elements_) * element : element;
  return options_.values == SparseValues::kFloat32 ? scaled : from_bfloat16(to_bfloat16(scaled));
}

const std::string& RandomKCodec::name() const {
  static const std::string name = "randomk";
  return name;
}

CodecTraits RandomKCodec::traits() const {
  const bool is_exact = group_elements_ == 1 && options_.values == SparseValues::kFloat32;
  return {.bits_per_element =
              8.0 * static_cast<double>(value_bytes(options_.values)) / static_cast<double>(group_elements_),
          .fixed_size = true,
          .max_scaler = 0,
          .unbiased = is_exact || (options_.is_unbiased && options_.values == SparseValues::kFloat32),
          .is_exact = is_exact,
          .wants_error_feedback = !options_.is_unbiased && !is_exact,
          .is_sparse = true,
          .is_amplified = options_.is_unbiased && group_elements_ > 1};
}

std::string RandomKCodec::options_text() const {
  std::ostringstream out;
  out.precision(17);
  out << "density=" << options_.density << " scale=" << (options_.is_unbiased ? "q" : "1")
      << " values=" << (options_.values == SparseValues::kFloat32 ? "fp32" : "bf16")
      << " workers=" << options_.num_workers;
  return out.str();
}

std::uint8_t RandomKCodec::record_format(PayloadForm) const { return kDrawnFormat; }

std::int64_t RandomKCodec::max_payload_bytes(const Slice& slice, PayloadForm) const {
  if (slice.count == 0) return 0;  // nothing is sent
  const std::int64_t count = groups_of(slice.first, slice.count, group_elements_).count;
  return kKeyBytes + (count * value_bytes(options_.values) + 3) / 4 * 4;
}

std::unique_ptr<Coder> RandomKCodec::make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                                PayloadSlots& slots) const {
  return std::make_unique<RandomKCoder>(*this, setup, segments, slots);
}

void RandomKCodec::check(const EncodedSlice& encoded) const {
  const Slice& slice = encoded.slice;
  const std::int64_t expected = max_payload_bytes(slice, PayloadForm::kNatural);
  if (encoded.format != kDrawnFormat || static_cast<std::int64_t>(encoded.payload.size()) != expected) {
    TERNGRAD_THROW(CommunicationError, "[randomk] segment ", slice.segment, " has ", encoded.payload.size(),
                   " bytes in format ", static_cast<int>(encoded.format), ", expected ", expected, " in format ",
                   static_cast<int>(kDrawnFormat));
  }
  if (slice.count == 0) return;
  const Groups groups = groups_of(slice.first, slice.count, group_elements_);
  DrawnPlaces places(key_of(encoded), group_elements_);
  // Only the first and the last group can have their element outside of the slice.
  for (const std::int64_t i : {std::int64_t{0}, groups.count - 1}) {
    const std::int64_t place = places.of_group(groups.first + i) - slice.first;
    if (place >= 0 && place < slice.count) continue;
    if (std::bit_cast<std::uint32_t>(read_value(options_.values, encoded.payload.data(), i)) != 0) {
      TERNGRAD_THROW(CommunicationError, "[randomk] segment ", slice.segment, " has a value of element ",
                     slice.first + place, ", which is none of the slice's ", slice.first, " to ",
                     slice.first + slice.count - 1);
    }
  }
  const auto used = static_cast<std::size_t>(kKeyBytes + groups.count * value_bytes(options_.values));
  if (std::ranges::any_of(encoded.payload.subspan(used), [](std::uint8_t byte) { return byte != 0; })) {
    TERNGRAD_THROW(CommunicationError, "[randomk] payload of segment ", slice.segment,
                   " is filled up with other bytes than zeros");
  }
}

void RandomKCodec::decode_range(const EncodedSlice& encoded, std::int64_t first, std::span<float> out) const {
  std::ranges::fill(out, 0.0f);
  if (out.empty()) return;
  const std::int64_t begin = encoded.slice.first + first;
  const auto count = static_cast<std::int64_t>(out.size());
  const Groups groups = groups_of(begin, count, group_elements_);
  const std::int64_t first_group = encoded.slice.first / group_elements_;
  DrawnPlaces places(key_of(encoded), group_elements_);
  for (std::int64_t i = 0; i < groups.count; ++i) {
    const std::int64_t place = places.of_group(groups.first + i) - begin;
    if (place < 0 || place >= count) continue;
    out[static_cast<std::size_t>(place)] =
        read_value(options_.values, encoded.payload.data(), groups.first + i - first_group);
  }
}

RandomKOptions read_randomk_options(SpecReader& reader) {
  RandomKOptions o;
  o.density = reader.number("density", o.density, kMinDensity, 1, "fraction of the elements that travel, 1 / q");
  o.is_unbiased = reader.choice("scale", o.is_unbiased, {{"1", false}, {"q", true}},
                                "of values: 1 is biased and for error feedback, q is unbiased and refuses it");
  o.values = reader.choice("values", o.values, {{"fp32", SparseValues::kFloat32}, {"bf16", SparseValues::kBfloat16}},
                           "how the elements travel");
  return o;
}

}  // namespace terngrad

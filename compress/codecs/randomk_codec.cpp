#include "compress/codecs/randomk_codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <sstream>

#include "compress/codec/coder.h"
#include "compress/codec/scaled_runs.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler.h"
#include "kernels/statistics/statistics.h"
#include "kernels/tensor/bfloat16.h"

namespace terngrad {
namespace {

constexpr std::uint8_t kDrawnFormat = 25;

class RandomKCoder final : public Coder {
 public:
  RandomKCoder(const RandomKCodec& codec, const CoderSetup& setup, const std::vector<int>& segments,
               PayloadSlots& slots)
      : Coder(codec, setup, segments, slots),
        codec_(codec),
        plan_(statistics_slices(setup.layout, segments, /*block_elements=*/0), setup.device),
        encoder_(setup.device),
        summer_(setup.device) {}

  bool can_overflow() const override { return true; }

  void measure(std::span<const TensorTable> gradients, const DeviceStep&, Stream& stream) override {
    nonfinite_flags(plan_, gradients, codec_.first_nonfinite(), local_rows(), stream);
  }

  void encode(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) override {
    tasks_.clear();
    for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
      for (std::size_t i = 0; i < encoded().size(); ++i) {
        const auto& [slice, first_scaler] = encoded()[i];
        outgoing_bytes(i, worker) = codec_.max_payload_bytes(slice, PayloadForm::kNatural);
        if (slice.count == 0) continue;
        tasks_.push_back({.values = gradients[worker].data(slice),
                          .type = gradients[worker].type(),
                          .flag = local(global(worker)) + first_scaler,
                          .shape = codec_.shape(slice),
                          .draw_offset = setup().layout.segment(slice.segment).draw_offset,
                          .payload = outgoing(i, worker)});
      }
    }
    encoder_.run(tasks_, codec_.factor(), setup().seed, step.step, stream, step.on_device);
  }

  void aggregate(const TensorTable& mean, AggregateUnit unit, Stream& stream) override {
    TERNGRAD_REQUIRE(unit == AggregateUnit::kMean, "[randomk] elements do not add up as integers");
    sums_.clear();
    for (std::size_t i = 0; i < aggregated().size(); ++i) {
      const Slice& slice = aggregated()[i].slice;
      if (slice.count == 0) continue;
      sums_.push_back({.shape = codec_.shape(slice),
                       .payloads = incoming(i),
                       .scale = 1.0f / static_cast<float>(setup().workers.num_workers),
                       .out = mean.slice(slice)});
    }
    summer_.run(sums_, stream);
  }

 private:
  const RandomKCodec& codec_;
  StatisticsPlan plan_;
  DrawnEncoder encoder_;
  DrawnSummer summer_;
  std::vector<DrawnEncodeTask> tasks_;
  std::vector<DrawnSumTask> sums_;
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
  // Binary search: the magnitude sent increases with the element's magnitude.
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

float RandomKCodec::factor() const { return options_.is_unbiased ? static_cast<float>(group_elements_) : 1.0f; }

float RandomKCodec::sent(float element) const {
  const float scaled = factor() * element;
  return options_.values == SparseValues::kFloat32 ? scaled : from_bfloat16(to_bfloat16(scaled));
}

const std::string& RandomKCodec::name() const {
  static const std::string name = "randomk";
  return name;
}

CodecTraits RandomKCodec::traits() const {
  const bool is_exact = group_elements_ == 1 && options_.values == SparseValues::kFloat32;
  return {.bits_per_element =
              (options_.values == SparseValues::kFloat32 ? 32.0 : 16.0) / static_cast<double>(group_elements_),
          .fixed_size = true,
          .max_scaler = 0,
          .unbiased = is_exact || (options_.is_unbiased && options_.values == SparseValues::kFloat32),
          .is_exact = is_exact,
          .wants_error_feedback = !options_.is_unbiased && !is_exact,
          .is_sparse = true,
          .is_amplified = options_.is_unbiased && group_elements_ > 1,
          .is_contractive = !options_.is_unbiased || is_exact};
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

DrawnShape RandomKCodec::shape(const Slice& slice) const {
  return {slice.first, slice.count, group_elements_, options_.values};
}

std::optional<DrawnShape> RandomKCodec::drawn_form(const Slice& slice) const { return shape(slice); }

std::int64_t RandomKCodec::max_payload_bytes(const Slice& slice, PayloadForm) const {
  return drawn_bytes(shape(slice));
}

std::unique_ptr<Coder> RandomKCodec::make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                                PayloadSlots& slots) const {
  return std::make_unique<RandomKCoder>(*this, setup, segments, slots);
}

void RandomKCodec::check(const EncodedSlice& encoded) const {
  if (encoded.format != kDrawnFormat) {
    TERNGRAD_THROW(CommunicationError, "[randomk] segment ", encoded.slice.segment, " is in format ",
                   static_cast<int>(encoded.format), ", expected ", static_cast<int>(kDrawnFormat));
  }
  check_drawn(shape(encoded.slice), encoded.payload);
}

void RandomKCodec::decode_range(const EncodedSlice& encoded, std::int64_t first, std::span<float> out) const {
  decode_drawn(shape(encoded.slice), encoded.payload, first, out);
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

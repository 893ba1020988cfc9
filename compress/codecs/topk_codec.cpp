#include "compress/codecs/topk_codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <sstream>

#include "compress/codec/coder.h"
#include "compress/codec/scaled_runs.h"
#include "compress/codecs/float_codecs.h"
#include "kernels/runtime/errors.h"
#include "kernels/sparse/sparse_encoder.h"
#include "kernels/sparse/sparse_sum.h"
#include "kernels/sparse/top_k.h"
#include "kernels/statistics/scaler.h"
#include "kernels/statistics/statistics.h"

namespace terngrad {
namespace {

// Densities of the warm-up, as published.
constexpr double kFirstDensity = 0.25;
constexpr double kDensityRatio = 4;
constexpr std::int64_t kMaxStageSteps = std::int64_t{1} << 40;
constexpr std::int64_t kMinTopKBlock = 256;
constexpr std::int64_t kMaxTopKBlock = 65536;

class TopKCoder final : public Coder {
 public:
  TopKCoder(const TopKCodec& codec, const CoderSetup& setup, const std::vector<int>& segments, PayloadSlots& slots)
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
        outgoing_bytes(i, worker) = 0;
        if (slice.count == 0) continue;
        tasks_.push_back({.values = gradients[worker].data(slice),
                          .type = gradients[worker].type(),
                          .flag = local(global(worker)) + first_scaler,
                          .shape = codec_.shape(slice, codec_.density_at(step.step)),
                          .payload = outgoing(i, worker)});
      }
    }
    bytes_.resize(tasks_.size());
    encoder_.run(tasks_, bytes_, stream);
    auto bytes = bytes_.cbegin();
    for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
      for (std::size_t i = 0; i < encoded().size(); ++i) {
        if (encoded()[i].slice.count > 0) outgoing_bytes(i, worker) = *bytes++;
      }
    }
  }

  void aggregate(const TensorTable& mean, AggregateUnit unit, Stream& stream) override {
    TERNGRAD_REQUIRE(unit == AggregateUnit::kMean, "[topk] elements do not add up as integers");
    const auto n = static_cast<std::size_t>(slots().num_payloads);
    messages_.resize(aggregated().size() * n);
    sums_.clear();
    for (std::size_t i = 0; i < aggregated().size(); ++i) {
      const Slice& slice = aggregated()[i].slice;
      if (slice.count == 0) continue;
      for (std::size_t k = 0; k < n; ++k) {
        const std::span<const std::uint8_t> payload(incoming(i)[k], static_cast<std::size_t>(incoming_bytes(i)[k]));
        messages_[i * n + k] = {shape_of(slice, payload), payload};
      }
      sums_.push_back({.workers = {messages_.data() + i * n, n},
                       .scale = 1.0f / static_cast<float>(setup().workers.num_workers),
                       .out = mean.slice(slice)});
    }
    summer_.run(sums_, stream);
  }

 private:
  /// On a GPU, where the host cannot read payloads, there is only one stage.
  SparseShape shape_of(const Slice& slice, std::span<const std::uint8_t> payload) const {
    if (setup().device.is_cuda()) return codec_.shape(slice, codec_.options().density);
    return codec_.shape(EncodedSlice{.slice = slice, .scalers = {}, .payload = payload});
  }

  const TopKCodec& codec_;
  StatisticsPlan plan_;
  SparseEncoder encoder_;
  SparseSummer summer_;
  std::vector<SparseEncodeTask> tasks_;
  std::vector<std::int64_t> bytes_;
  std::vector<SparseMessage> messages_;
  std::vector<SparseSumTask> sums_;
};

}  // namespace

TopKCodec::TopKCodec(const TopKOptions& options) : options_(options) {
  TERNGRAD_REQUIRE(options.density >= kMinDensity && options.density <= 1, "[topk] density must be from ", kMinDensity,
                   " to 1, got ", options.density);
  TERNGRAD_REQUIRE(options.block_elements >= kMinTopKBlock && options.block_elements <= kMaxTopKBlock &&
                       std::has_single_bit(static_cast<std::uint64_t>(options.block_elements)),
                   "[topk] block must be a power of two from ", kMinTopKBlock, " to ", kMaxTopKBlock, ", got ",
                   options.block_elements);
  TERNGRAD_REQUIRE(options.stage_steps >= 0, "[topk] stage_steps must be at least 0, got ", options.stage_steps);
  TERNGRAD_REQUIRE(options.stage_steps == 0 || options.scope == TopKScope::kLayer,
                   "[topk] stage_steps needs scope=layer, whose messages say how many elements they hold");
  TERNGRAD_REQUIRE(options.stage_steps == 0 || options.density < kFirstDensity,
                   "[topk] stage_steps needs a density below ", kFirstDensity, ", that of the first stage, got ",
                   options.density);
  if (options.stage_steps > 0) {
    for (double density = kFirstDensity; density > options.density; density /= kDensityRatio) {
      densities_.push_back(density);
    }
  }
  densities_.push_back(options.density);
  TERNGRAD_REQUIRE(options.num_workers >= 1, "[topk] num_workers must be at least 1, got ", options.num_workers);
}

double TopKCodec::density_at(std::uint64_t step) const {
  if (options_.stage_steps == 0) return options_.density;
  const std::uint64_t stage = step / static_cast<std::uint64_t>(options_.stage_steps);
  return densities_[std::min<std::size_t>(stage, densities_.size() - 1)];
}

SparseShape TopKCodec::shape(const EncodedSlice& encoded) const {
  const SparseShape usual = shape(encoded.slice, options_.density);
  std::uint32_t count = 0;  // first word of format runs
  if (densities_.size() == 1 || encoded.payload.size() < sizeof(count)) return usual;
  std::memcpy(&count, encoded.payload.data(), sizeof(count));
  for (const double density : densities_) {
    const SparseShape of_stage = shape(encoded.slice, density);
    if (num_kept(of_stage) == count) return of_stage;
  }
  return usual;  // no stage matches; `check` then refuses the payload
}

SparseShape TopKCodec::shape(const Slice& slice, double density) const {
  const bool is_layer = options_.scope == TopKScope::kLayer;
  return {.format = is_layer ? SparseFormat::kRuns : SparseFormat::kLocal,
          .values = options_.values,
          .num_elements = slice.count,
          .density = density,
          .block_elements = is_layer ? 0 : options_.block_elements};
}

std::uint32_t TopKCodec::first_nonfinite() const {
  return FloatCodec::first_nonfinite(options_.values == SparseValues::kFloat32 ? FloatCodec::Width::kFloat32
                                                                               : FloatCodec::Width::kBfloat16);
}

std::optional<SparseShape> TopKCodec::sparse_form(const Slice& slice) const {
  if (densities_.size() > 1 || slice.count == 0) return std::nullopt;
  return shape(slice, options_.density);
}

const std::string& TopKCodec::name() const {
  static const std::string name = "topk";
  return name;
}

CodecTraits TopKCodec::traits() const {
  const double value_bits = options_.values == SparseValues::kFloat32 ? 32 : 16;
  const bool is_layer = options_.scope == TopKScope::kLayer;
  // A group of 128 positions spans 128 / density elements on average, and has two words of its own.
  const double density = densities_.front();  // largest of all stages
  const double kept = is_layer ? density
                               : static_cast<double>(top_k_count(options_.block_elements, options_.density)) /
                                     static_cast<double>(options_.block_elements);
  const double place_bits =
      is_layer ? std::log2(128 / density) + 1.5 : std::log2(static_cast<double>(options_.block_elements));
  return {.bits_per_element = kept * (value_bits + place_bits),
          .fixed_size = !is_layer,
          .max_scaler = 0,
          .unbiased = false,
          .wants_error_feedback = true,
          .grain_elements = is_layer ? CodecTraits::kWholeTensors : std::max(kChunkElements, options_.block_elements),
          .self_delimiting = is_layer,
          .is_sparse = true};
}

std::string TopKCodec::options_text() const {
  std::ostringstream out;
  out.precision(17);
  out << "density=" << options_.density << " scope=" << (options_.scope == TopKScope::kLayer ? "layer" : "block");
  if (options_.scope == TopKScope::kBlock) out << " block=" << options_.block_elements;
  out << " values=" << (options_.values == SparseValues::kFloat32 ? "fp32" : "bf16");
  if (options_.stage_steps > 0) out << " stage_steps=" << options_.stage_steps;
  out << " workers=" << options_.num_workers;
  return out.str();
}

std::uint8_t TopKCodec::record_format(PayloadForm) const {
  return static_cast<std::uint8_t>(options_.scope == TopKScope::kLayer ? SparseFormat::kRuns : SparseFormat::kLocal);
}

std::int64_t TopKCodec::max_payload_bytes(const Slice& slice, PayloadForm) const {
  std::int64_t bytes = 0;
  if (slice.count == 0) return bytes;  // no payload
  for (const double density : densities_) bytes = std::max(bytes, max_sparse_bytes(shape(slice, density)));
  return bytes;
}

std::vector<std::uint64_t> TopKCodec::stages() const {
  std::vector<std::uint64_t> first;
  for (std::uint64_t stage = 0; stage < densities_.size(); ++stage) {
    first.push_back(stage * static_cast<std::uint64_t>(options_.stage_steps));
  }
  return first;
}

std::shared_ptr<const Codec> TopKCodec::at_step(std::uint64_t step) const {
  if (options_.stage_steps == 0) return nullptr;
  TopKOptions of_stage = options_;
  of_stage.density = density_at(step);
  of_stage.stage_steps = 0;
  return std::make_shared<TopKCodec>(of_stage);
}

std::unique_ptr<Coder> TopKCodec::make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                             PayloadSlots& slots) const {
  if (densities_.size() > 1 && !setup.device.is_cpu()) {
    // Payload slots on GPUs would have the size of the first stage, and be sent whole in every step.
    TERNGRAD_THROW(NotSupported, "[topk] stage_steps=", options_.stage_steps, " on a GPU: make the coder of at_step");
  }
  return std::make_unique<TopKCoder>(*this, setup, segments, slots);
}

void TopKCodec::check(const EncodedSlice& encoded) const {
  if (encoded.format != record_format(PayloadForm::kNatural)) {
    TERNGRAD_THROW(CommunicationError, "[topk] segment ", encoded.slice.segment, " is in format ",
                   static_cast<int>(encoded.format), ", expected ",
                   static_cast<int>(record_format(PayloadForm::kNatural)));
  }
  if (encoded.slice.count == 0 && encoded.payload.empty()) return;
  check_sparse(shape(encoded), encoded.payload);
}

void TopKCodec::decode_range(const EncodedSlice& encoded, std::int64_t first, std::span<float> out) const {
  std::ranges::fill(out, 0.0f);
  add_sparse(shape(encoded), encoded.payload, first, out);
}

TopKOptions read_topk_options(SpecReader& reader) {
  TopKOptions o;
  o.density = reader.number("density", o.density, kMinDensity, 1, "fraction of the elements that travel");
  o.scope = reader.choice("scope", o.scope, {{"layer", TopKScope::kLayer}, {"block", TopKScope::kBlock}},
                          "chosen among all elements of a tensor, or of each block");
  o.block_elements = reader.choice<std::int64_t>("block", o.block_elements,
                                                 {{"256", 256},
                                                  {"512", 512},
                                                  {"1024", 1024},
                                                  {"2048", 2048},
                                                  {"4096", 4096},
                                                  {"8192", 8192},
                                                  {"16384", 16384},
                                                  {"32768", 32768},
                                                  {"65536", 65536}},
                                                 "elements of a block of scope=block");
  reader.require_for("block", o.scope == TopKScope::kBlock, "scope=block");
  o.values = reader.choice("values", o.values, {{"fp32", SparseValues::kFloat32}, {"bf16", SparseValues::kBfloat16}},
                           "how the kept elements travel");
  o.stage_steps = reader.integer("stage_steps", o.stage_steps, 0, kMaxStageSteps,
                                 "steps of each stage with more elements: 1/4, 1/16, and so on down to density; 0: "
                                 "no such stages");
  reader.require_for("stage_steps", o.scope == TopKScope::kLayer, "scope=layer");
  return o;
}

}  // namespace terngrad

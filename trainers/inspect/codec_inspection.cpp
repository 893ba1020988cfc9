#include "trainers/inspect/codec_inspection.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "compress/codec/codec_spec.h"
#include "compress/memory/worker_memory.h"
#include "compress/plan/codec_plan.h"
#include "compress/plan/codec_presets.h"
#include "compress/wire/aggregate_messages.h"
#include "compress/wire/gradient_message.h"
#include "compress/wire/worker_encoder.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/stopwatch.h"
#include "trainers/inspect/distortion_sums.h"

namespace terngrad {
namespace {

/// Repetitions of each worker's first step; the fastest one counts.
constexpr int kRepetitions = 3;

}  // namespace

InspectedCodec inspected_codec(const std::string& spec, const std::string& memory) {
  const std::unique_ptr<Codec> codec = make_codec(spec, {});
  const std::string of_preset = expand_preset(parse_codec_spec(spec), codec_presets()).memory;
  const std::string own = codec->traits().wants_error_feedback ? "ef" : "none";
  const std::string asked = memory != "auto" ? memory : of_preset.empty() ? own : of_preset;
  return {.given = spec,
          .canonical = to_string(canonical_codec_spec(spec)),
          .memory = codec->traits().is_exact ? "none" : canonical_memory(asked)};
}

struct CodecInspection::Parts {
  InspectedCodec codec;
  const Layout& layout;
  int num_workers;
  CodecPlan plan;
  std::vector<WorkerEncoder> encoders = {};
  std::optional<WorkerMemory> memory = {};
  std::vector<int> segments = {};  // all segments
  Stream stream = Stream(Device::cpu(), 1);
  bool shares_scalers = false;
  Buffer<float> decoded, mean;
  std::vector<DistortionSums> sums;
  std::vector<double> residual_norms = {};
  double message_bytes = 0;  // bytes of all messages
  double encode_seconds = std::numeric_limits<double>::infinity();
  double decode_seconds = std::numeric_limits<double>::infinity();
  std::uint64_t seed = 1;  // seed of draws
  int num_steps = 0;

  std::span<const float> tensor(const TensorTable& table, int segment) const {
    return {table.tensor(segment), static_cast<std::size_t>(layout.segment(segment).num_elements)};
  }
  void require_finite(const WorkerEncoder& encoder, const std::string& source) const {
    for (const int segment : segments) {
      if (!encoder.is_nonfinite(segment)) continue;
      TERNGRAD_THROW(DataError, "'", source, "': tensor '", layout.segment(segment).name, "' of worker ",
                     encoder.worker(), " holds numbers that are too large for ", codec.given);
    }
  }
  /// Measures a worker's scalers. @returns fastest time in seconds
  double measure(int worker, const TensorTable& encoded, std::uint64_t step, const std::string& source) {
    double fastest = std::numeric_limits<double>::infinity();
    WorkerEncoder& encoder = encoders[static_cast<std::size_t>(worker)];
    for (int i = 0; i < (num_steps == 0 ? kRepetitions : 1); ++i) {
      auto mark = std::chrono::steady_clock::now();
      encoder.measure(encoded, step, stream);
      fastest = std::min(fastest, lap_seconds(mark));
    }
    require_finite(encoder, source);
    return fastest;
  }
  void share_scalers() {
    std::vector<float> scalers(static_cast<std::size_t>(plan.num_scalers()));
    for (const WorkerEncoder& from : encoders) {
      from.copy_scalers(scalers);
      for (WorkerEncoder& to : encoders) {
        if (to.worker() != from.worker()) to.set_scalers(from.worker(), scalers);
      }
    }
  }
  /// Encodes and decodes a worker's tensors. @param measured  seconds of measuring
  std::span<const std::uint8_t> send(int worker, const TensorTable& encoded, const MessageContext& context,
                                     double measured) {
    std::span<const std::uint8_t> bytes;
    Message message;
    const TensorTable out(layout, decoded.data());
    for (int i = 0; i < (num_steps == 0 ? kRepetitions : 1); ++i) {
      auto mark = std::chrono::steady_clock::now();
      bytes = encoders[static_cast<std::size_t>(worker)].gradient_message(encoded, context, stream);
      encode_seconds = std::min(encode_seconds, measured + lap_seconds(mark));
      read_gradient_message(bytes, layout, plan, context, message);
      decode_gradient(message, plan, out);
      decode_seconds = std::min(decode_seconds, lap_seconds(mark));
    }
    message_bytes += static_cast<double>(bytes.size());
    for (const int segment : segments) {
      DistortionSums& of_tensor = sums[static_cast<std::size_t>(segment)];
      const EncodedSlice& slice = message.records[static_cast<std::size_t>(segment)].encoded;
      of_tensor.code_bytes += static_cast<double>(slice.payload.size());
      MessageSize size(1);
      size.add(static_cast<std::int64_t>(slice.scalers.size()), static_cast<std::int64_t>(slice.payload.size()));
      of_tensor.record_bytes += static_cast<double>(size.bytes()) - kWireHeaderBytes;
      of_tensor.add(tensor(encoded, segment), tensor(out, segment));
    }
    return bytes;
  }
  void compare_means(std::span<const TensorTable> encoded, std::span<const std::span<const std::uint8_t>> messages,
                     const MessageContext& context) {
    const TensorTable out(layout, mean.data());
    aggregate_messages(messages, layout, plan, num_workers, context, out, stream);
    for (const int segment : segments) {
      DistortionSums& of_tensor = sums[static_cast<std::size_t>(segment)];
      const std::span<const float> found = tensor(out, segment);
      for (std::size_t i = 0; i < found.size(); ++i) {
        double sum = 0;
        for (const TensorTable& worker : encoded) sum += static_cast<double>(worker.tensor(segment)[i]);
        const double expected = sum / num_workers;
        of_tensor.mean_power += expected * expected;
        of_tensor.mean_noise += (found[i] - expected) * (found[i] - expected);
      }
    }
  }
  /// Updates the memory after a step, and records the residual norms.
  void settle(std::span<const TensorTable> gradients, std::span<const TensorTable> encoded) {
    for (const MemoryTables& tables : memory->kept(layout, segments, encoded)) {
      for (std::size_t w = 0; w < encoders.size(); ++w) {
        encoders[w].update_memory(tables.what, tables.from[w], tables.into[w], stream);
      }
    }
    DistortionSums all;
    for (const int segment : segments) {
      DistortionSums& of_tensor = sums[static_cast<std::size_t>(segment)];
      of_tensor.gradient_power = of_tensor.residual_power = 0;
      for (std::size_t w = 0; w < encoders.size(); ++w) {
        of_tensor.gradient_power += power_of(tensor(gradients[w], segment));
        if (!memory->has_state(segment)) continue;
        const std::span<float> residual = decoded.span().first(tensor(gradients[w], segment).size());
        memory->read_state(static_cast<int>(w), segment, residual, stream);
        if (memory->options().kind == MemoryKind::kEf21) {
          std::ranges::transform(tensor(gradients[w], segment), residual, residual.begin(), std::minus<>());
        }
        of_tensor.residual_power += power_of(residual);
      }
      all += of_tensor;
    }
    residual_norms.push_back(root_of_ratio(all.residual_power, all.gradient_power));
  }
  CodecDistortion distortion(const DistortionSums& of, double bytes_with_headers) const {
    CodecDistortion result = of.distortion(bytes_with_headers);
    if (num_workers > 1) result.mean_vnmse = ratio_of(of.mean_noise, of.mean_power);
    if (memory) result.residual_norm = root_of_ratio(of.residual_power, of.gradient_power);
    return result;
  }
};

CodecInspection::CodecInspection(const InspectedCodec& codec, const Layout& layout, int num_workers,
                                 std::uint64_t seed) {
  const CodecPlanOptions options{
      .codec = codec.canonical, .rules = {}, .size_to_binarize = 0, .quantize_logits = true, .context = {num_workers}};
  parts_.reset(new Parts{.codec = codec,
                         .layout = layout,
                         .num_workers = num_workers,
                         .plan = CodecPlan(layout, options),
                         .decoded = zeros<float>(layout.flat_elements()),
                         .mean = zeros<float>(num_workers > 1 ? layout.flat_elements() : 0),
                         .sums = std::vector<DistortionSums>(static_cast<std::size_t>(layout.num_segments())),
                         .seed = seed});
  for (int worker = 0; worker < num_workers; ++worker) {
    parts_->encoders.emplace_back(layout, parts_->plan, worker, num_workers, seed);
  }
  parts_->segments.resize(static_cast<std::size_t>(layout.num_segments()));
  std::iota(parts_->segments.begin(), parts_->segments.end(), 0);
  for (const CodecPlan::Group& group : parts_->plan.groups()) parts_->shares_scalers |= shares_scalers(*group.codec);
  const auto& groups = parts_->plan.groups();
  // A codec may apply to none of these tensors, which are then sent losslessly as fp32: no memory.
  if (std::ranges::all_of(groups, [](const auto& group) { return group.codec->traits().is_exact; })) {
    parts_->codec.memory = "none";
  }
  if (const MemoryOptions memory = parse_memory(parts_->codec.memory); memory.kind != MemoryKind::kNone) {
    parts_->memory.emplace(layout, parts_->plan, memory, num_workers);
  }
}
CodecInspection::~CodecInspection() = default;
CodecInspection::CodecInspection(CodecInspection&&) noexcept = default;

void CodecInspection::add(const GradientFile& gradients, std::uint64_t step) {
  Parts& p = *parts_;
  TERNGRAD_REQUIRE(static_cast<int>(gradients.workers.size()) == p.num_workers &&
                       gradients.layout.fingerprint() == p.layout.fingerprint(),
                   "[inspect] other tensors or workers than before");
  std::vector<TensorTable> own;
  for (const Buffer<float>& worker : gradients.workers) {
    own.emplace_back(p.layout, const_cast<float*>(worker.data()));  // read only
  }
  std::vector<TensorTable> encoded = own;
  if (p.memory) encoded = p.memory->compensate(p.layout, p.segments, own, {.step = step}, p.stream);
  std::vector<double> measured;
  measured.reserve(static_cast<std::size_t>(p.num_workers));
  for (int worker = 0; worker < p.num_workers; ++worker) {
    measured.push_back(p.measure(worker, encoded[static_cast<std::size_t>(worker)], step, gradients.source));
  }
  if (p.shares_scalers) p.share_scalers();
  const MessageContext context{.run_id = 0, .fingerprint = p.plan.fingerprint(), .step = step, .seed = p.seed};
  std::vector<std::span<const std::uint8_t>> messages;
  for (std::size_t worker = 0; worker < own.size(); ++worker) {
    messages.push_back(p.send(static_cast<int>(worker), encoded[worker], context, measured[worker]));
  }
  if (p.num_workers > 1) p.compare_means(encoded, messages, context);
  if (p.memory) p.settle(own, encoded);
  ++p.num_steps;
}

InspectionResult CodecInspection::result() const {
  const Parts& p = *parts_;
  InspectionResult result{.codec = p.codec, .all = {}, .tensors = {}, .residual_norms = p.residual_norms};
  DistortionSums all;
  for (const DistortionSums& of_tensor : p.sums) {
    all += of_tensor;
    result.tensors.push_back(p.distortion(of_tensor, of_tensor.record_bytes));
  }
  result.all = p.distortion(all, p.message_bytes);
  if (p.memory) {
    result.kept_bytes = static_cast<double>(p.memory->layout().num_elements()) * sizeof(float) /
                        static_cast<double>(p.layout.num_elements());
  }
  const double fp32_bytes = 4 * static_cast<double>(p.layout.num_elements());
  result.encode_bytes_per_second = fp32_bytes / p.encode_seconds;
  result.decode_bytes_per_second = fp32_bytes / p.decode_seconds;
  return result;
}

}  // namespace terngrad

// TernGrad between workers on a GPU.
#include <algorithm>
#include <vector>

#include "compress/device_coder.h"
#include "compress/ternary_codec.h"
#include "kernels/aggregate.h"
#include "kernels/copy.h"
#include "kernels/encode_blocks.h"
#include "kernels/scaler.h"
#include "kernels/ternarize.h"
#include "kernels/transform.h"
#include "kernels/tree_sum.h"

namespace terngrad {
namespace {

/// Blocks up to which a thread block that encodes one in a single pass is quick (kernels/encode_blocks.h).
constexpr std::int64_t kMaxFusedBlock = 131072;

std::vector<std::int64_t> scalers_of_segments(const TernaryCodec& codec, const Layout& layout,
                                              std::span<const int> segments) {
  std::vector<std::int64_t> result;
  for (const int segment : segments) result.push_back(codec.num_scalers(layout.segment(segment).num_elements));
  return result;
}

std::vector<std::int64_t> bytes_of_segments(const TernaryCodec& codec, const Layout& layout,
                                            std::span<const int> segments) {
  std::vector<std::int64_t> result;
  for (const int segment : segments) {
    result.push_back(
        codec.max_payload_bytes({segment, 0, layout.segment(segment).num_elements}, PayloadForm::kNatural));
  }
  return result;
}

ScalerCombination combination_of(ScalerSharing sharing) {
  switch (sharing) {
    case ScalerSharing::kMean:
      return ScalerCombination::kMean;
    case ScalerSharing::kNone:
      return ScalerCombination::kOwn;
    default:
      return ScalerCombination::kGreatest;
  }
}

class TernaryDeviceCoder final : public DeviceCoder {
 public:
  TernaryDeviceCoder(const TernaryCodec& codec, const DeviceExchangeSetup& setup, const std::vector<int>& segments)
      : DeviceCoder(setup, segments, scalers_of_segments(codec, setup.layout, segments),
                    bytes_of_segments(codec, setup.layout, segments), combination_of(codec.sharing())),
        options_(codec.options()),
        block_elements_(codec.kernel_block_elements()),
        plan_(statistics_slices(setup.layout, segments, block_elements_), setup.device),
        ternarizer_(setup.device),
        block_encoder_(setup.device),
        code_summer_(setup.device),
        tree_summer_(setup.device),
        decoder_(setup.device) {
    // Codes can be drawn with a block still in the caches where no other worker's scaler and no flag of another block
    // has a say in them.
    const bool own_scalers = options_.sharing == ScalerSharing::kNone || options_.num_workers == 1;
    draws_ahead_ = own_scalers && setup.drops_nonfinite_steps && options_.format == TernaryFormat::kT2 &&
                   block_elements_ > 0 && block_elements_ % kChunkElements == 0 && block_elements_ <= kMaxFusedBlock;
    if (block_elements_ == 0) return;
    std::vector<std::int64_t> first;
    for (std::size_t i = 0; i <= segments.size(); ++i) first.push_back(first_scaler(i));
    Stream stream(setup.device);
    first_scalers_ = Buffer<std::int64_t>(static_cast<std::int64_t>(first.size()), setup.device);
    copy<std::int64_t>(first, first_scalers_.span(), stream);
    stream.synchronize();
  }

  bool can_overflow() const override { return options_.sharing == ScalerSharing::kNone; }

  void measure(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) override {
    if (draws_ahead_) {
      draw_ahead(gradients, step, stream);
    } else if (options_.scope == ScalerScope::kModel) {
      model_scalers(plan_, gradients, options_.clip_factor, options_.rule, local_rows(), stream);
    } else {
      local_scalers(plan_, gradients, options_.clip_factor, options_.rule, local_rows(), stream);
    }
    if (block_elements_ == 0) return;
    flag_whole_segments(local_rows().data(), setup().workers.num_local_workers, first_scalers_.data(),
                        static_cast<std::int64_t>(segments().size()), num_scalers(), stream);
  }

  void encode(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) override {
    if (draws_ahead_) return;
    const bool clips = options_.clip_scope == ClipScope::kLocal && options_.clip_factor > 0;
    tasks_.clear();
    for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
      const int global = setup().workers.first_local_worker + static_cast<int>(worker);
      for (std::size_t i = 0; i < segments().size(); ++i) {
        tasks_.push_back({.gradient = gradients[worker].data(segments()[i]),
                          .count = segment(i).num_elements,
                          .draw_offset = segment(i).draw_offset,
                          .block_elements = block_elements_,
                          .scalers = drawn_with(static_cast<int>(worker), i),
                          .clips = clips ? local(global, i) : nullptr,
                          .payload = payload(global, i),
                          .worker = static_cast<std::uint32_t>(worker),
                          .type = gradients[worker].type()});
      }
    }
    bytes_.resize(tasks_.size());
    ternarizer_.run(tasks_, {.format = options_.format, .num_workers = options_.num_workers}, draw_key(step), bytes_,
                    stream, step.on_device);
  }

  void aggregate(const TensorTable& mean, bool sums, Stream& stream) override {
    if (options_.sharing == ScalerSharing::kNone) return aggregate_unshared(mean, stream);
    prepare_payloads();
    sum_tasks_.clear();
    for (std::size_t i = 0; i < segments().size(); ++i) {
      if (segment(i).num_elements == 0) continue;
      sum_tasks_.push_back(code_sum(i, 0, setup().workers.num_workers, sums ? ones(i) : scales(i), mean));
    }
    code_summer_.run(sum_tasks_, stream);
  }

  void return_ternary(const TensorTable& mean, const DeviceStep& step, Stream& stream) override {
    if (return_scalers_.num_elements() == 0) make_return_workspace();
    // The greatest |sum| of each scaler's elements is the scaler that clipping at 0 gives; sums are small integers.
    local_scalers(*return_plan_, {&mean, 1}, 0, ScalerRule::kPaper, return_scalers_.span(), stream);
    tasks_.clear();
    for (std::size_t i = 0; i < segments().size(); ++i) {
      tasks_.push_back({.gradient = mean.tensor(segments()[i]),
                        .count = segment(i).num_elements,
                        .draw_offset = segment(i).draw_offset,
                        .block_elements = block_elements_,
                        .scalers = return_scalers_.data() + first_scaler(i),
                        .payload = return_payload(i)});
    }
    bytes_.resize(tasks_.size());
    const DrawKey key{setup().seed, step.step, 0, DrawPurpose::kReturnLeg};
    return_ternarizer_->run(
        tasks_, {.format = options_.format, .num_workers = 1, .refine_purpose = DrawPurpose::kReturnLegRefine}, key,
        bytes_, stream, step.on_device);
    multiply(scales(), return_scalers_.span(), return_scalers_.span(), stream);
    sum_tasks_.clear();
    return_pointers_.resize(segments().size());
    for (std::size_t i = 0; i < segments().size(); ++i) {
      if (segment(i).num_elements == 0) continue;
      return_pointers_[i] = return_payload(i);
      CodeSumTask task = code_sum(i, 0, 1, return_scalers_.data() + first_scaler(i), mean);
      task.payloads = {&return_pointers_[i], 1};
      sum_tasks_.push_back(task);
    }
    return_summer_->run(sum_tasks_, stream);
  }

  void decode(int local_worker, int which, std::span<float> out, Stream& stream) override {
    const std::size_t i = index_of(which);
    const MeanLeaf leaf = {.payload = payload_span(setup().workers.first_local_worker + local_worker, i),
                           .scalers = drawn_with(local_worker, i)};
    const MeanTask task = {.format = leaf_format(options_.format),
                           .workers = {&leaf, 1},
                           .count = segment(i).num_elements,
                           .block_elements = block_elements_,
                           .out = out.data()};
    decoder_.run({&task, 1}, stream);
  }

 private:
  DrawKey draw_key(const DeviceStep& step) const {
    return {setup().seed, step.step, static_cast<std::uint32_t>(setup().workers.first_local_worker),
            DrawPurpose::kTernarize};
  }

  std::span<const std::uint8_t> payload_span(int worker, std::size_t i) {
    return {payload(worker, i), static_cast<std::size_t>(terngrad::payload_bytes(
                                    options_.format, segment(i).num_elements, options_.num_workers))};
  }

  void draw_ahead(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) {
    block_tasks_.clear();
    for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
      const int global = setup().workers.first_local_worker + static_cast<int>(worker);
      for (std::size_t i = 0; i < segments().size(); ++i) {
        float* row = local_rows().data() + static_cast<std::int64_t>(worker) * num_scalers();
        block_tasks_.push_back({.gradient = gradients[worker].data(segments()[i]),
                                .count = segment(i).num_elements,
                                .draw_offset = segment(i).draw_offset,
                                .block_elements = block_elements_,
                                .scalers = row + first_scaler(i),
                                .payload = payload(global, i),
                                .worker = static_cast<std::uint32_t>(worker),
                                .type = gradients[worker].type()});
      }
    }
    block_encoder_.run(block_tasks_, options_.clip_factor, options_.rule, draw_key(step), stream, step.on_device);
  }

  /// Where all workers' payloads are, and how long.
  void prepare_payloads() {
    const auto n = static_cast<std::size_t>(setup().workers.num_workers);
    pointers_.resize(segments().size() * n);
    lengths_.resize(pointers_.size());
    for (std::size_t i = 0; i < segments().size(); ++i) {
      for (std::size_t worker = 0; worker < n; ++worker) {
        const std::span<const std::uint8_t> bytes = payload_span(static_cast<int>(worker), i);
        pointers_[i * n + worker] = bytes.data();
        lengths_[i * n + worker] = static_cast<std::int64_t>(bytes.size());
      }
    }
  }

  CodeSumTask code_sum(std::size_t i, int first_worker, int num_workers, const float* scales_of,
                       const TensorTable& mean) {
    const std::size_t at =
        i * static_cast<std::size_t>(setup().workers.num_workers) + static_cast<std::size_t>(first_worker);
    return {.format = options_.format,
            .payloads = {pointers_.data() + at, static_cast<std::size_t>(num_workers)},
            .payload_bytes = {lengths_.data() + at, static_cast<std::size_t>(num_workers)},
            .num_workers = num_workers,
            .count = segment(i).num_elements,
            .block_elements = block_elements_,
            .scales = scales_of,
            .out = mean.tensor(segments()[i])};
  }

  void aggregate_unshared(const TensorTable& mean, Stream& stream) {
    const auto n = static_cast<std::size_t>(setup().workers.num_workers);
    leaves_.resize(segments().size() * n);
    mean_tasks_.clear();
    for (std::size_t i = 0; i < segments().size(); ++i) {
      if (segment(i).num_elements == 0) continue;
      for (std::size_t worker = 0; worker < n; ++worker) {
        leaves_[i * n + worker] = {.payload = payload_span(static_cast<int>(worker), i),
                                   .scalers = own(static_cast<int>(worker), i)};
      }
      mean_tasks_.push_back({.format = leaf_format(options_.format),
                             .workers = {leaves_.data() + i * n, n},
                             .count = segment(i).num_elements,
                             .block_elements = block_elements_,
                             .scale = 1.0f / static_cast<float>(options_.num_workers),
                             .out = mean.tensor(segments()[i])});
    }
    tree_summer_.run(mean_tasks_, stream);
  }

  /// Scales that leave sums as they are.
  const float* ones(std::size_t i) {
    if (ones_.num_elements() == 0 && num_scalers() > 0) {
      Stream stream(setup().device);
      ones_ = Buffer<float>(num_scalers(), setup().device);
      copy<float>(std::vector<float>(static_cast<std::size_t>(num_scalers()), 1.0f), ones_.span(), stream);
      stream.synchronize();
    }
    return ones_.data() + first_scaler(i);
  }

  void make_return_workspace() {
    const Device& device = setup().device;
    return_plan_ =
        std::make_unique<StatisticsPlan>(statistics_slices(setup().layout, segments(), block_elements_), device);
    return_scalers_ = Buffer<float>(num_scalers(), device);
    return_payloads_ = Buffer<std::uint64_t>(DeviceCoder::payload_bytes() / 8, device);
    return_ternarizer_ = std::make_unique<Ternarizer>(device);
    return_summer_ = std::make_unique<CodeSummer>(device);
  }

  std::uint8_t* return_payload(std::size_t i) {
    return reinterpret_cast<std::uint8_t*>(return_payloads_.data()) + (payload(0, i) - payload(0, 0));
  }

  TernaryOptions options_;
  std::int64_t block_elements_;
  bool draws_ahead_ = false;
  StatisticsPlan plan_;
  Ternarizer ternarizer_;
  BlockEncoder block_encoder_;
  CodeSummer code_summer_;
  TreeSummer tree_summer_;
  TreeSummer decoder_;
  Buffer<std::int64_t> first_scalers_;  // of scope block
  Buffer<float> ones_;
  Buffer<float> return_scalers_;
  Buffer<std::uint64_t> return_payloads_;
  // The return leg has tables of its own, which stay the same from step to step.
  std::unique_ptr<StatisticsPlan> return_plan_;
  std::unique_ptr<Ternarizer> return_ternarizer_;
  std::unique_ptr<CodeSummer> return_summer_;
  std::vector<TernarizeTask> tasks_;
  std::vector<EncodeBlocksTask> block_tasks_;
  std::vector<CodeSumTask> sum_tasks_;
  std::vector<MeanTask> mean_tasks_;
  std::vector<MeanLeaf> leaves_;
  std::vector<const std::uint8_t*> pointers_;
  std::vector<const std::uint8_t*> return_pointers_;
  std::vector<std::int64_t> lengths_;
  std::vector<std::int64_t> bytes_;
};

}  // namespace

std::unique_ptr<DeviceCoder> TernaryCodec::make_device_coder(const DeviceExchangeSetup& setup,
                                                             const std::vector<int>& segments) const {
  return std::make_unique<TernaryDeviceCoder>(*this, setup, segments);
}

}  // namespace terngrad

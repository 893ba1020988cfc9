// Coder of codec ternary, on either device.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "compress/codec/coder.h"
#include "compress/codecs/ternary_codec.h"
#include "kernels/codes/code_sum.h"
#include "kernels/codes/encode_blocks.h"
#include "kernels/codes/ternarize.h"
#include "kernels/codes/ternary.h"
#include "kernels/codes/tree_sum.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler.h"
#include "kernels/statistics/side_scalers.h"

namespace terngrad {
namespace {

/// True if blocks should be encoded in a single pass (kernels/codes/encode_blocks.h) instead of two passes over the
/// tensor. On a GPU a thread block reads its block twice, the second time from the L2 cache. The blocks in work at the
/// same time may take half of the cache; the rest is for payloads and early evictions. An H100 SXM works on 4 blocks on
/// each of 132 multiprocessors (limited by the kernel's registers), and has 50 MB of cache (NVIDIA H100 Tensor Core GPU
/// Architecture): that makes 12288 elements of float32, or 24576 of 16 bits. Larger blocks would be read from memory
/// twice, so two passes are faster.
bool fits_one_pass(std::int64_t block_elements, ElementType type, const Device& device) {
  constexpr std::int64_t kCacheBytes = std::int64_t{50} << 20;
  constexpr std::int64_t kBlocksAtOnce = std::int64_t{132} * 4;
  return device.is_cpu() ||
         block_elements <= kCacheBytes / 2 / kBlocksAtOnce / static_cast<std::int64_t>(element_bytes(type));
}

class TernaryCoder final : public Coder {
 public:
  TernaryCoder(const TernaryCodec& codec, const CoderSetup& setup, const std::vector<int>& segments,
               PayloadSlots& slots)
      : Coder(codec, setup, segments, slots),
        options_(codec.options()),
        format_(static_cast<TernaryFormat>(codec.record_format(slots.form))),
        block_elements_(codec.kernel_block_elements()),
        plan_(statistics_slices(setup.layout, segments, block_elements_), setup.device),
        ternarizer_(setup.device),
        block_encoder_(setup.device),
        code_summer_(setup.device),
        tree_summer_(setup.device) {
    // Codes can be drawn while a block is still in the cache if they need no other worker's scaler. Such a pass writes
    // the payload of a whole tensor. A tensor with a non-finite block is zeroed afterwards, which GPU kernels do not
    // do.
    const bool own_scalers = options_.sharing == ScalerSharing::kNone || options_.num_workers == 1;
    const bool suits_device = setup.device.is_cpu() || setup.drops_nonfinite_steps;
    can_draw_ahead_ = options_.rounding == Rounding::kStochastic && !codec.is_asymmetric() && own_scalers &&
                      suits_device && format_ == TernaryFormat::kT2 && encodes_whole() && block_elements_ > 0 &&
                      block_elements_ % kChunkElements == 0;
    if (setup.device.is_cuda() && !runs_on_gpus(format_)) {
      TERNGRAD_THROW(NotSupported, "[ternary] format=", to_string(format_),
                     " has no kernels for GPUs; accepted there: t2, t5, tmask");
    }
    if (codec.is_asymmetric()) {
      side_scalers_.emplace(statistics_slices(setup.layout, segments, block_elements_), setup.device);
    }
    if (!has_several_scalers()) return;
    Stream stream(setup.device);
    first_scalers_ = Buffer<std::int64_t>(static_cast<std::int64_t>(first_scalers().size()), setup.device);
    copy<std::int64_t>(first_scalers(), first_scalers_.span(), stream);
    stream.synchronize();
  }

  bool can_overflow() const override { return !codec().traits().summable || codec().rotation() != 0; }

  void measure(std::span<const TensorTable> given, const DeviceStep& step, Stream& stream) override {
    const std::span<const TensorTable> gradients = rotate(given, step, stream);
    const ElementType type = gradients.empty() ? ElementType::kFloat32 : gradients.front().type();
    draws_ahead_ = can_draw_ahead_ && fits_one_pass(block_elements_, type, setup().device);
    if (draws_ahead_) {
      draw_ahead(gradients, step, stream);
    } else if (side_scalers_) {
      side_scalers_->run(gradients, options_.clip_factor, options_.rule, local_rows(), stream);
    } else if (options_.scope == ScalerScope::kModel) {
      model_scalers(plan_, gradients, options_.clip_factor, options_.rule, local_rows(), stream);
    } else {
      local_scalers(plan_, gradients, options_.clip_factor, options_.rule, local_rows(), stream);
    }
    if (!has_several_scalers()) return;
    flag_whole_segments(local_rows().data(), setup().workers.num_local_workers, first_scalers_.data(),
                        static_cast<std::int64_t>(segments().size()), num_scalers(), stream);
  }

  void encode(std::span<const TensorTable> given, const DeviceStep& step, Stream& stream) override {
    const std::span<const TensorTable> gradients = rotated(given);
    if (draws_ahead_) return zero_flagged(gradients.size());
    const bool clips = options_.clip_scope == ClipScope::kLocal && options_.clip_factor > 0;
    tasks_.clear();
    // The workers' tasks for a slice come one after the other, since they may share draws.
    for (std::size_t i = 0; i < encoded().size(); ++i) {
      const auto& [slice, first_scaler] = encoded()[i];
      for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
        tasks_.push_back({.gradient = gradients[worker].data(slice),
                          .first = slice.first,
                          .count = slice.count,
                          .draw_offset = setup().layout.segment(slice.segment).draw_offset,
                          .block_elements = block_elements_,
                          .scalers = drawn_with(worker) + first_scaler,
                          .clips = clips ? local(global(worker)) + first_scaler : nullptr,
                          .payload = outgoing(i, worker),
                          .worker = static_cast<std::uint32_t>(worker),
                          .type = gradients[worker].type()});
      }
    }
    bytes_.resize(tasks_.size());
    ternarizer_.run(tasks_,
                    {.format = format_,
                     .num_workers = options_.num_workers,
                     .rounding = options_.rounding,
                     .levels = options_.levels},
                    draw_key(step), bytes_, stream, step.on_device);
    const std::int64_t* bytes = bytes_.data();
    for (std::size_t i = 0; i < encoded().size(); ++i) {
      for (std::size_t worker = 0; worker < gradients.size(); ++worker) outgoing_bytes(i, worker) = *bytes++;
    }
  }

  void aggregate(const TensorTable& mean, AggregateUnit unit, Stream& stream) override {
    if (!codec().traits().summable) {
      TERNGRAD_REQUIRE(unit == AggregateUnit::kMean, "[ternary] codes have no common unit without one shared scaler");
      return aggregate_decoded(mean, stream);
    }
    const float* scales_of = unit == AggregateUnit::kSums ? ones() : scales().data();
    sum_tasks_.clear();
    for (std::size_t i = 0; i < aggregated().size(); ++i) {
      const auto& [slice, first_scaler] = aggregated()[i];
      sum_tasks_.push_back({.format = format_,
                            .payloads = incoming(i),
                            .payload_bytes = incoming_bytes(i),
                            .num_workers = options_.num_workers,
                            .first = slice.first,
                            .count = slice.count,
                            .block_elements = block_elements_,
                            .scales = scales_of + first_scaler,
                            .out = mean.slice(slice)});
    }
    code_summer_.run(sum_tasks_, stream);
  }

 private:
  DrawKey draw_key(const DeviceStep& step) const {
    return {setup().seed, step.step, static_cast<std::uint32_t>(setup().workers.first_local_worker),
            DrawPurpose::kTernarize};
  }

  /// True if a tensor may have several scalers, which are all set to NaN if one is.
  bool has_several_scalers() const { return block_elements_ != 0 || side_scalers_.has_value(); }

  /// True if every tensor is encoded as one slice.
  bool encodes_whole() const {
    std::int64_t num_left = 0;  // elements
    for (const int segment : segments()) num_left += setup().layout.segment(segment).num_elements;
    for (const CodedSlice& coded : encoded()) {
      if (coded.slice.count != setup().layout.segment(coded.slice.segment).num_elements) return false;
      num_left -= coded.slice.count;
    }
    return num_left == 0;
  }

  void draw_ahead(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) {
    block_tasks_.clear();
    for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
      float* row = local_rows().data() + static_cast<std::int64_t>(worker) * num_scalers();
      for (std::size_t i = 0; i < encoded().size(); ++i) {
        const auto& [slice, first_scaler] = encoded()[i];
        block_tasks_.push_back({.gradient = gradients[worker].data(slice),
                                .count = slice.count,
                                .draw_offset = setup().layout.segment(slice.segment).draw_offset,
                                .block_elements = block_elements_,
                                .scalers = row + first_scaler,
                                .payload = outgoing(i, worker),
                                .worker = static_cast<std::uint32_t>(worker),
                                .type = gradients[worker].type()});
        outgoing_bytes(i, worker) = codec().max_payload_bytes(slice, PayloadForm::kNatural);
      }
    }
    block_encoder_.run(block_tasks_, options_.clip_factor, options_.rule, draw_key(step), stream, step.on_device);
  }

  /// Zeroes the codes that were drawn ahead for a non-finite tensor; on the CPU only.
  void zero_flagged(std::size_t num_local_workers) {
    if (setup().device.is_cuda()) return;
    for (std::size_t worker = 0; worker < num_local_workers; ++worker) {
      const float* scalers = local(global(worker));
      for (std::size_t i = 0; i < encoded().size(); ++i) {
        if (!std::isnan(scalers[encoded()[i].first_scaler])) continue;
        std::memset(outgoing(i, worker), 0, static_cast<std::size_t>(outgoing_bytes(i, worker)));
      }
    }
  }

  /// Writes the mean of the workers' decoded codes.
  void aggregate_decoded(const TensorTable& mean, Stream& stream) {
    const auto n = static_cast<std::size_t>(slots().num_payloads);
    leaves_.resize(aggregated().size() * n);
    mean_tasks_.clear();
    for (std::size_t i = 0; i < aggregated().size(); ++i) {
      const auto& [slice, first_scaler] = aggregated()[i];
      for (std::size_t worker = 0; worker < n; ++worker) {
        leaves_[i * n + worker] = {
            .payload = {incoming(i)[worker], static_cast<std::size_t>(incoming_bytes(i)[worker])},
            .scalers = sent_scalers(static_cast<int>(worker)).data() + first_scaler};
      }
      mean_tasks_.push_back({.format = leaf_format(format_),
                             .workers = {leaves_.data() + i * n, n},
                             .first = slice.first,
                             .count = slice.count,
                             .block_elements = block_elements_,
                             .scale = 1.0f / static_cast<float>(options_.num_workers),
                             .out = mean.slice(slice),
                             .two_scalers = side_scalers_.has_value()});
    }
    tree_summer_.run(mean_tasks_, stream);
  }

  /// [num_scalers()] factors 1, for aggregating unscaled sums.
  const float* ones() {
    if (ones_.num_elements() == 0 && num_scalers() > 0) {
      Stream stream(setup().device);
      ones_ = Buffer<float>(num_scalers(), setup().device);
      copy<float>(std::vector<float>(static_cast<std::size_t>(num_scalers()), 1.0f), ones_.span(), stream);
      stream.synchronize();
    }
    return ones_.data();
  }

  TernaryOptions options_;
  TernaryFormat format_;  // format of payloads
  std::int64_t block_elements_;
  bool can_draw_ahead_ = false;  // also requires fits_one_pass for the gradients' element type
  bool draws_ahead_ = false;     // in the last measure()
  StatisticsPlan plan_;
  std::optional<SideScalerPlan> side_scalers_;  // for asymmetric levels
  Ternarizer ternarizer_;
  BlockEncoder block_encoder_;
  CodeSummer code_summer_;
  TreeSummer tree_summer_;
  Buffer<std::int64_t> first_scalers_;  // set if tensors may have several scalers
  Buffer<float> ones_;
  std::vector<TernarizeTask> tasks_;
  std::vector<EncodeBlocksTask> block_tasks_;
  std::vector<CodeSumTask> sum_tasks_;
  std::vector<MeanTask> mean_tasks_;
  std::vector<MeanLeaf> leaves_;
  std::vector<std::int64_t> bytes_;
};

}  // namespace

std::unique_ptr<Coder> TernaryCodec::make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                                PayloadSlots& slots) const {
  return std::make_unique<TernaryCoder>(*this, setup, segments, slots);
}

}  // namespace terngrad

// WorkerEncoder: one worker's side of an exchange, from gradient to messages.
#pragma once

#include <memory>
#include <vector>

#include "compress/codecs/codec_plan.h"
#include "compress/wire/wire_format.h"

namespace terngrad {

/// Measures and encodes one worker's gradient with the codecs of a plan. Buffers are kept from step to step.
class WorkerEncoder {
 public:
  /// @param worker  global number
  WorkerEncoder(const Layout& layout, const CodecPlan& plan, int worker);

  int worker() const { return worker_; }

  /// Measures the local scalers of every tensor. @param seed  of the run's draws
  void measure(const TensorTable& gradient, std::uint64_t seed, std::uint64_t step, Stream& stream);
  /// [plan.num_scalers()] local scalers, tensors in order of the layout.
  std::span<const float> local_scalers() const { return local_; }

  /// Message with the local scalers of all tensors, valid as long as the writer's.
  std::span<const std::uint8_t> scalers_message(const MessageContext& context, MessageWriter& writer);

  struct GradientPart {
    std::span<const Slice> slices;
    std::span<const float> shared;  // [plan.num_scalers()] scalers to encode with
    PayloadForm form = PayloadForm::kNatural;
    std::uint64_t seed = 1;  // of the run's draws
  };
  /// Message with the encoded slices of a part, valid as long as the writer's.
  std::span<const std::uint8_t> gradient_message(const TensorTable& gradient, const GradientPart& part,
                                                 const MessageContext& context, MessageWriter& writer, Stream& stream);

 private:
  DrawKey draw_key(std::uint64_t seed, std::uint64_t step) const;
  const Layout& layout_;
  const CodecPlan& plan_;
  int worker_;
  std::vector<std::unique_ptr<Encoder>> encoders_;  // one per group of the plan
  std::vector<float> local_;
  std::vector<float> own_;  // local_ with 0 for NaN: what unshared scalers travel as, so that zeros decode to zeros
  std::vector<float> group_scalers_;
  std::vector<EncodeJob> jobs_;
  std::vector<EncodeJob> group_jobs_;
  std::vector<std::size_t> job_slices_;
};

}  // namespace terngrad

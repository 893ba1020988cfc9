#include "compress/memory/worker_memory.h"

#include <cstddef>

#include "compress/plan/codec_plan.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/element_type.h"
#include "kernels/tensor/memory_update.h"

namespace terngrad {

WorkerMemory::WorkerMemory(const Layout& layout, const CodecPlan& plan, const MemoryOptions& options,
                           int num_local_workers, const Device& device)
    : whole_(layout), options_(options) {
  TERNGRAD_REQUIRE(options.kind != MemoryKind::kNone, "[memory] none keeps nothing");
  std::vector<int> covered;
  for (int segment = 0; segment < layout.num_segments(); ++segment) {
    const CodecTraits traits = plan.codec_of(segment).traits();
    TERNGRAD_REQUIRE(options.kind != MemoryKind::kErrorFeedback || !traits.votes, "[memory] ef: a vote of codec ",
                     plan.codec_of(segment).name(),
                     " is no sum, so what a message left out cannot be sent later; accepted: momentum, or reduce=mean");
    covers_.push_back(!traits.is_exact);
    if (covers_.back()) covered.push_back(segment);
  }
  TERNGRAD_REQUIRE(!covered.empty(), "[memory] ", name(),
                   " has nothing to keep: the codecs of all tensors lose nothing; accepted: none");
  covered_ = layout.select(covered);
  Stream stream(device);
  for (int worker = 0; worker < num_local_workers; ++worker) {
    for (std::vector<Buffer<float>>* memory : {&state_memory_, &encoded_memory_}) {
      memory->emplace_back(layout.flat_elements(), device);
      fill_zero(memory->back().span(), stream);
    }
    states_.emplace_back(layout, state_memory_.back().data());
  }
  stream.synchronize();
}

std::span<const TensorTable> WorkerMemory::begin(std::span<const TensorTable> gradients) {
  TERNGRAD_REQUIRE(gradients.size() == states_.size(), "[memory] made for ", states_.size(), " workers, got ",
                   gradients.size(), " gradients");
  gradients_.assign(gradients.begin(), gradients.end());
  encoded_.clear();
  for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
    const bool is_wide = gradients[worker].type() == ElementType::kFloat32;
    std::vector<float*> tensors;
    for (int segment = 0; segment < whole_.num_segments(); ++segment) {
      const bool is_own = covers(segment) || !is_wide;
      tensors.push_back(is_own ? encoded_memory_[worker].data() + whole_.segment(segment).offset
                               : gradients[worker].tensor(segment));
    }
    encoded_.emplace_back(whole_, tensors);
  }
  return encoded_;
}

void WorkerMemory::compensate(std::span<const int> segments, Stream& stream) {
  const auto decay = static_cast<float>(options_.decay);
  const float weight = options_.kind == MemoryKind::kMomentum ? static_cast<float>(1 - options_.decay) : 1.0f;
  for (std::size_t worker = 0; worker < gradients_.size(); ++worker) {
    const TensorTable& gradient = gradients_[worker];
    for (const int segment : segments) {
      const std::int64_t count = whole_.segment(segment).num_elements;
      if (covers(segment)) {
        terngrad::compensate({.state = states_[worker].tensor(segment),
                              .gradient = gradient.data(segment),
                              .type = gradient.type(),
                              .compensated = encoded_[worker].tensor(segment),
                              .count = count},
                             decay, weight, stream);
      } else if (gradient.type() != ElementType::kFloat32) {
        // Tables have one type, and that of compensated tensors is float32.
        widen(gradient.data(segment), gradient.type(),
              {encoded_[worker].tensor(segment), static_cast<std::size_t>(count)}, stream);
      }
    }
  }
}

}  // namespace terngrad

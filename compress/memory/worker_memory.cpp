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
    std::vector<float*> tensors;
    tensors.reserve(static_cast<std::size_t>(whole_.num_segments()));
    for (int segment = 0; segment < whole_.num_segments(); ++segment) {
      tensors.push_back(encoded_of(worker, segment, gradients[worker], segment));
    }
    encoded_.emplace_back(whole_, tensors);
  }
  return encoded_;
}

float* WorkerMemory::encoded_of(std::size_t worker, int segment, const TensorTable& gradients, int at) {
  // Tables have one type, and that of compensated tensors is float32.
  const bool is_own = covers(segment) || gradients.type() != ElementType::kFloat32;
  return is_own ? encoded_memory_[worker].data() + whole_.segment(segment).offset : gradients.tensor(at);
}

void WorkerMemory::compensate(std::size_t worker, int segment, const TensorTable& gradients, int at, Stream& stream) {
  const std::int64_t count = whole_.segment(segment).num_elements;
  float* encoded = encoded_of(worker, segment, gradients, at);
  if (covers(segment)) {
    const auto decay = static_cast<float>(options_.decay);
    const float weight = options_.kind == MemoryKind::kMomentum ? static_cast<float>(1 - options_.decay) : 1.0f;
    terngrad::compensate({.state = states_[worker].tensor(segment),
                          .gradient = gradients.data(at),
                          .type = gradients.type(),
                          .compensated = encoded,
                          .count = count},
                         decay, weight, stream);
  } else if (gradients.type() != ElementType::kFloat32) {
    widen(gradients.data(at), gradients.type(), {encoded, static_cast<std::size_t>(count)}, stream);
  }
}

void WorkerMemory::compensate(std::span<const int> segments, Stream& stream) {
  for (std::size_t worker = 0; worker < gradients_.size(); ++worker) {
    for (const int segment : segments) compensate(worker, segment, gradients_[worker], segment, stream);
  }
}

std::vector<TensorTable> WorkerMemory::compensate_part(const Layout& selection, std::span<const int> segments,
                                                       std::span<const TensorTable> gradients, Stream& stream) {
  TERNGRAD_REQUIRE(gradients.size() == states_.size(), "[memory] made for ", states_.size(), " workers, got ",
                   gradients.size(), " gradients");
  std::vector<TensorTable> encoded;
  for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
    std::vector<float*> tensors;
    tensors.reserve(segments.size());
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const int at = static_cast<int>(i);
      compensate(worker, segments[i], gradients[worker], at, stream);
      tensors.push_back(encoded_of(worker, segments[i], gradients[worker], at));
    }
    encoded.emplace_back(selection, tensors);
  }
  return encoded;
}

std::vector<TensorTable> WorkerMemory::states_of(const Layout& selection, std::span<const int> segments) const {
  std::vector<TensorTable> tables;
  for (const TensorTable& states : states_) {
    std::vector<float*> tensors;
    tensors.reserve(segments.size());
    for (const int segment : segments) tensors.push_back(states.tensor(segment));
    tables.emplace_back(selection, tensors);
  }
  return tables;
}

}  // namespace terngrad

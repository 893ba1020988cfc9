#include "compress/memory/worker_memory.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "compress/plan/codec_plan.h"
#include "compress/plan/codec_presets.h"
#include "compress/plan/combinations.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/element_type.h"
#include "kernels/tensor/memory_update.h"

namespace terngrad {
namespace {

constexpr const char* kVelocity = "/velocity";

/// Layout of the residuals of some tensors, followed by velocities.
Layout with_velocities(const Layout& layout, std::span<const int> with_residual, std::span<const int> with_velocity) {
  Layout both;
  for (const int segment : with_residual) both.add(layout.segment(segment).name, layout.segment(segment).shape);
  for (const int number : with_velocity) {
    const Segment& segment = layout.segment(number);
    TERNGRAD_REQUIRE(layout.find(segment.name + kVelocity) < 0, "[memory] the velocity of tensor '", segment.name,
                     "' would have the name of another tensor");
    both.add(segment.name + kVelocity, segment.shape);
  }
  return both;
}

/// Layout of averaged residuals: words in place of elements.
Layout with_words(const Layout& layout, std::span<const int> with_residual) {
  Layout words;
  for (const int segment : with_residual) {
    const Segment& tensor = layout.segment(segment);
    words.add(tensor.name, {residual_blocks(tensor.num_elements), kResidualBlockWords});
  }
  return words;
}

}  // namespace

std::string default_memory(const std::string& codec, const CodecPlan& plan, int num_workers) {
  const bool keeps_nothing =
      std::ranges::all_of(plan.groups(), [](const CodecPlan::Group& group) { return group.codec->traits().is_exact; });
  if (keeps_nothing) return "none";
  std::string memory = expand_preset(parse_codec_spec(codec), codec_presets()).memory;
  if (!memory.empty()) return memory;
  return make_codec(codec, {.num_workers = num_workers})->traits().wants_error_feedback ? "ef" : "none";
}

WorkerMemory::WorkerMemory(const Layout& layout, const CodecPlan& plan, const MemoryOptions& options,
                           int num_local_workers, const Device& device)
    : whole_(layout), options_(options) {
  TERNGRAD_REQUIRE(options.kind != MemoryKind::kNone, "[memory] none keeps nothing");
  require_combination(plan, {.memory = options.kind});
  std::vector<int> covered, all;
  for (int segment = 0; segment < layout.num_segments(); ++segment) {
    const Codec& codec = plan.codec_of(segment);
    const bool is_exact = codec.traits().is_exact;
    covers_.push_back(!is_exact || is_dgc());
    all.push_back(segment);
    if (!is_exact) covered.push_back(segment);
  }
  covered_ = has_velocity()                      ? with_velocities(layout, covered, is_dgc() ? all : covered)
             : options.kind == MemoryKind::kLoco ? with_words(layout, covered)
                                                 : layout.select(covered);
  Stream stream(device);
  for (int worker = 0; worker < num_local_workers; ++worker) add_worker(device, stream);
  stream.synchronize();
}

void WorkerMemory::add_worker(const Device& device, Stream& stream) {
  const auto add = [&](std::vector<Buffer<float>>& memory, std::int64_t count) {
    memory.emplace_back(count, device);
    fill_zero(memory.back().span(), stream);
    return memory.back().data();
  };
  float* const state = add(state_memory_, covered_.flat_elements());
  add(encoded_memory_, whole_.flat_elements());
  if (!has_velocity() && options_.kind != MemoryKind::kLoco) {
    states_.emplace_back(whole_, state);
    return;
  }
  const auto place = [&](const std::string& tensor) -> float* {
    const int index = covered_.find(tensor);
    return index < 0 ? nullptr : state + covered_.segment(index).offset;
  };
  std::vector<float*> residuals;
  std::vector<float*> velocities;
  for (const Segment& segment : whole_.segments()) {
    residuals.push_back(place(segment.name));
    velocities.push_back(place(segment.name + kVelocity));
  }
  states_.emplace_back(whole_, residuals);
  if (!has_velocity()) return;
  velocities_.emplace_back(whole_, velocities);
  next_velocities_.emplace_back(whole_, add(next_memory_, whole_.flat_elements()));
}

float* WorkerMemory::encoded_of(std::size_t worker, int segment, const TensorTable& gradients, int at) {
  // A table has a single element type, which for compensated gradients is float32.
  const bool is_own = covers(segment) || gradients.type() != ElementType::kFloat32;
  return is_own ? encoded_memory_[worker].data() + whole_.segment(segment).offset : gradients.tensor(at);
}

void WorkerMemory::compensate(std::size_t worker, int segment, const TensorTable& gradients, int at, Stream& stream) {
  const std::int64_t count = whole_.segment(segment).num_elements;
  float* encoded = encoded_of(worker, segment, gradients, at);
  const auto decay = static_cast<float>(options_.decay);
  const auto weight = static_cast<float>(1 - options_.decay);
  if (is_dgc()) {
    accumulate({.residual = states_[worker].tensor(segment),
                .velocity = velocities_[worker].tensor(segment),
                .gradient = gradients.data(at),
                .type = gradients.type(),
                .next_velocity = next_velocities_[worker].tensor(segment),
                .compensated = encoded,
                .count = count},
               decay, options_.nesterov, stream);
  } else if (covers(segment) && options_.kind == MemoryKind::kLoco) {
    terngrad::compensate({.state = states_[worker].tensor(segment),
                          .gradient = gradients.data(at),
                          .type = gradients.type(),
                          .compensated = encoded,
                          .count = count},
                         average(), stream);
  } else if (covers(segment) && options_.kind == MemoryKind::kEf21) {
    CompensateTask task{.state = states_[worker].tensor(segment),
                        .gradient = gradients.data(at),
                        .type = gradients.type(),
                        .compensated = encoded,
                        .count = count};
    if (has_velocity()) {
      float* const next = next_velocities_[worker].tensor(segment);
      terngrad::compensate({.state = velocities_[worker].tensor(segment),
                            .gradient = task.gradient,
                            .type = task.type,
                            .compensated = next,
                            .count = count},
                           decay, weight, stream);
      task.gradient = next;
      task.type = ElementType::kFloat32;
    }
    terngrad::compensate(task, -1, 1, stream);
  } else if (covers(segment)) {
    terngrad::compensate({.state = states_[worker].tensor(segment),
                          .gradient = gradients.data(at),
                          .type = gradients.type(),
                          .compensated = encoded,
                          .count = count},
                         decay, options_.kind == MemoryKind::kMomentum ? weight : 1.0f, stream);
  } else if (gradients.type() != ElementType::kFloat32) {
    widen(gradients.data(at), gradients.type(), {encoded, static_cast<std::size_t>(count)}, stream);
  }
}

ResidualAverage WorkerMemory::average() const {
  return {.decay = static_cast<float>(options_.decay),
          .weight = static_cast<float>(1 - options_.decay),
          .reset = static_cast<std::uint64_t>(options_.reset),
          .step = step_};
}

void WorkerMemory::read_state(int local_worker, int segment, std::span<float> out, Stream& stream) const {
  TERNGRAD_REQUIRE(has_state(segment), "[memory] tensor ", segment, " has no state");
  const float* const state = states_.at(static_cast<std::size_t>(local_worker)).tensor(segment);
  if (options_.kind == MemoryKind::kLoco) {
    fill_zero(out, stream);
    const AveragedCompensateTask task{.state = state,
                                      .gradient = out.data(),
                                      .compensated = out.data(),
                                      .count = static_cast<std::int64_t>(out.size())};
    terngrad::compensate(task, {}, stream);
  } else {
    copy<float>({state, out.size()}, out, stream);
  }
  stream.synchronize();
}

std::vector<TensorTable> WorkerMemory::compensate(const Layout& selection, std::span<const int> segments,
                                                  std::span<const TensorTable> gradients, const DeviceStep& step,
                                                  Stream& stream) {
  TERNGRAD_REQUIRE(gradients.size() == states_.size(), "[memory] made for ", states_.size(), " workers, got ",
                   gradients.size(), " gradients");
  step_ = step;
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

std::vector<MemoryTables> WorkerMemory::kept(const Layout& selection, std::span<const int> segments,
                                             std::span<const TensorTable> encoded) const {
  MemoryUpdate update;
  if (options_.kind == MemoryKind::kMomentum) update.kind = MemoryUpdateKind::kEncoded;
  if (options_.kind == MemoryKind::kLoco) update = {MemoryUpdateKind::kAveraged, average()};
  if (options_.kind == MemoryKind::kEf21) update.kind = MemoryUpdateKind::kAdded;
  std::vector<TensorTable> states = select_tensors(states_, selection, segments);
  std::vector<TensorTable> from(encoded.begin(), encoded.end());
  if (update.kind == MemoryUpdateKind::kAdded) from = states;
  std::vector<MemoryTables> kept = {{.what = update, .from = std::move(from), .into = std::move(states)}};
  if (has_velocity()) {
    kept.push_back({.what = {is_dgc() ? MemoryUpdateKind::kMasked : MemoryUpdateKind::kEncoded},
                    .from = select_tensors(next_velocities_, selection, segments),
                    .into = select_tensors(velocities_, selection, segments)});
  }
  return kept;
}

}  // namespace terngrad

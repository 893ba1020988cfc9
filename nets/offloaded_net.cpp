#include "nets/offloaded_net.h"

#include <cstddef>
#include <utility>

#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

/// Part `index` of consecutive parts of equal size.
template <class T>
std::span<T> part_of(std::span<T> values, int index, std::int64_t size) {
  return values.subspan(static_cast<std::size_t>(index * size), static_cast<std::size_t>(size));
}

/// Uploads values to the start of a buffer, which grows to hold them. @returns their address
const float* upload(std::span<const float> values, Buffer<float>& buffer, Stream& stream) {
  const auto count = static_cast<std::int64_t>(values.size());
  if (buffer.num_elements() < count) buffer = Buffer<float>(count, stream.device());
  copy<float>(values, buffer.span().first(values.size()), stream);
  return buffer.data();
}

}  // namespace

OffloadedNet::OffloadedNet(const NetSpec& spec, const ImageShape& shape, int num_classes, const NetOptions& options,
                           MathMode math, std::span<const Device> gpus)
    : PlannedNet(plan_net(spec, shape, num_classes)), options_(options) {
  check_workers(options);
  const auto num_gpus = static_cast<int>(gpus.size());
  TERNGRAD_REQUIRE(num_gpus >= 1 && num_gpus <= options.num_local_workers, "[OffloadedNet] ", num_gpus, " GPUs for ",
                   options.num_local_workers, " workers; needs one at least, and a worker for each");
  for (int i = 0; i < num_gpus; ++i) {
    const int first = i * options.num_local_workers / num_gpus;
    const int end = (i + 1) * options.num_local_workers / num_gpus;
    parts_.push_back(make_part(spec, options, math, first, end - first, gpus[static_cast<std::size_t>(i)]));
  }
}

OffloadedNet::Part OffloadedNet::make_part(const NetSpec& spec, NetOptions options, MathMode math, int first_worker,
                                           int num_workers, const Device& gpu) const {
  options.first_local_worker += first_worker;
  options.num_local_workers = num_workers;
  const std::int64_t num_examples = std::int64_t{num_workers} * options.examples_per_worker;
  return {.net = make_device_net(spec, image_shape(), num_classes(), options, math, Stream(gpu)),
          .first_worker = first_worker,
          .num_workers = num_workers,
          .parameters = Buffer<float>(layout().flat_elements(), gpu),
          .images = Buffer<float>(num_examples * image_shape().num_elements(), gpu),
          .labels = Buffer<std::int32_t>(num_examples, gpu),
          .states = Buffer<float>(num_workers * state_layout().flat_elements(), gpu),
          .gradients = Buffer<float>(num_workers * layout().flat_elements(), gpu),
          .losses = Buffer<WorkerLoss>(num_workers, gpu)};
}

void OffloadedNet::submit(Part& part, std::span<const float> parameters, const TrainBatch& batch) {
  Stream& stream = part.net->stream();
  const std::int64_t labels = options_.examples_per_worker;
  const std::int64_t pixels = labels * image_shape().num_elements();
  const std::int64_t state = state_layout().flat_elements();
  copy<float>(parameters, part.parameters.span(), stream);
  const auto own = [&](auto values, std::int64_t per_worker) {
    return values.subspan(static_cast<std::size_t>(part.first_worker * per_worker),
                          static_cast<std::size_t>(part.num_workers * per_worker));
  };
  copy<float>(own(batch.images, pixels), part.images.span(), stream);
  copy<std::int32_t>(own(batch.labels, labels), part.labels.span(), stream);
  for (int w = 0; state > 0 && w < part.num_workers; ++w) {
    const float* const from = batch.states[part.index_of(w)];
    copy<float>(std::span(from, static_cast<std::size_t>(state)), part_of(part.states.span(), w, state), stream);
  }
  part.net->submit_gradients(part.parameters.data(),
                             {.images = part.images.data(),
                              .labels = part.labels.data(),
                              .step = {.step = batch.step},
                              .states = {part.states.data(), state}},
                             {part.gradients.data(), layout().flat_elements()}, part.losses.data());
}

void OffloadedNet::download(Part& part, const TrainBatch& batch, std::span<float* const> gradients,
                            std::span<WorkerLoss> losses) {
  Stream& stream = part.net->stream();
  const std::int64_t state = state_layout().flat_elements();
  for (int w = 0; w < part.num_workers; ++w) {
    const std::size_t worker = part.index_of(w);
    const std::span<float> flat = part_of(part.gradients.span(), w, layout().flat_elements());
    // Tensor by tensor: padding between them must not be overwritten.
    for (const Segment& tensor : layout().segments()) {
      const auto size = static_cast<std::size_t>(tensor.num_elements);
      copy<float>(flat.subspan(static_cast<std::size_t>(tensor.offset), size),
                  std::span(gradients[worker] + tensor.offset, size), stream);
    }
    if (state == 0) continue;
    copy<float>(part_of(part.states.span(), w, state), std::span(batch.states[worker], static_cast<std::size_t>(state)),
                stream);
  }
  copy<WorkerLoss>(
      part.losses.span(),
      losses.subspan(static_cast<std::size_t>(part.first_worker), static_cast<std::size_t>(part.num_workers)), stream);
}

void OffloadedNet::compute_gradients(std::span<const float> parameters, const TrainBatch& batch,
                                     std::span<float* const> gradients, std::span<WorkerLoss> losses,
                                     const SegmentReady& on_segment_ready) {
  check_gradients(plan(), options_, parameters, batch, gradients, losses);
  refuse_logits(batch);
  for (const std::int32_t label : batch.labels) {
    TERNGRAD_REQUIRE(label >= 0 && label < num_classes(), "[Net] label ", label, " is not in [0, ", num_classes(), ")");
  }
  // Submit to all GPUs before waiting for the first.
  for (Part& part : parts_) submit(part, parameters, batch);
  for (Part& part : parts_) download(part, batch, gradients, losses);
  for (Part& part : parts_) part.net->stream().synchronize();
  if (!on_segment_ready) return;
  for (const int segment : gradient_order()) {
    for (int worker = 0; worker < options_.num_local_workers; ++worker) on_segment_ready(worker, segment);
  }
}

void OffloadedNet::predict(std::span<const float> parameters, std::span<const float> state,
                           std::span<const float> images, int num_examples, std::span<float> logits) {
  check_predict(plan(), parameters, state, images, num_examples, logits);
  Part& part = parts_[0];
  Stream& stream = part.net->stream();
  const auto count = static_cast<std::int64_t>(logits.size());
  if (logits_.num_elements() < count) logits_ = Buffer<float>(count, stream.device());
  const float* const on_gpu = upload(parameters, part.parameters, stream);
  const float* const its_state = upload(state, predicted_state_, stream);
  part.net->submit_predict(on_gpu, its_state, upload(images, predicted_images_, stream), num_examples, logits_.data());
  copy<float>(logits_.span().first(logits.size()), logits, stream);
  stream.synchronize();
}

}  // namespace terngrad

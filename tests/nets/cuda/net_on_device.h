// A net on a GPU with parameters, examples and results, for tests.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <memory>
#include <vector>

#include "nets/device_net.h"
#include "tests/nets/reference_net.h"
#include "tests/support/cuda_device.h"

namespace terngrad::test {

/// Computes steps of workers first, first + 1, ..., on examples that depend on worker and step.
struct NetOnDevice {
  static constexpr std::uint64_t kSeed = 11;

  NetSpec spec;
  ImageShape image;
  int num_classes;
  int num_workers;
  int examples;  // per worker
  int first_worker;
  Stream stream{Device::cuda()};
  std::unique_ptr<DeviceNet> net;
  std::vector<float> host_parameters;
  Buffer<float> parameters, gradients, states, images;
  Buffer<std::int32_t> labels;
  Buffer<WorkerLoss> losses{0};

  NetOnDevice(NetSpec net_spec, const ImageShape& shape, int classes, int workers, int examples_per_worker,
              int first = 0, MathMode math = MathMode::kFp32)
      : spec(std::move(net_spec)),
        image(shape),
        num_classes(classes),
        num_workers(workers),
        examples(examples_per_worker),
        first_worker(first),
        net(make_device_net(
            spec, image, num_classes,
            {.num_local_workers = workers, .examples_per_worker = examples, .first_local_worker = first, .seed = kSeed},
            math, stream)),
        host_parameters(random_floats(static_cast<std::size_t>(net->layout().flat_elements()), 1)),
        losses(workers, stream.device()) {
    for (float& parameter : host_parameters) parameter *= 0.3f;
    parameters = testing::to_device<float>(host_parameters, stream);
    // NaN reveals elements that are not written.
    const std::vector<float> nothing(static_cast<std::size_t>(workers * net->layout().flat_elements()), NAN);
    gradients = testing::to_device<float>(nothing, stream);
    std::vector<float> initial(static_cast<std::size_t>(net->state_layout().flat_elements()));
    net->initialize_state(initial);
    std::vector<float> of_all;
    for (int w = 0; w < workers; ++w) of_all.insert(of_all.end(), initial.begin(), initial.end());
    states = testing::to_device<float>(of_all, stream);
    images = Buffer<float>(workers * examples * image.num_elements(), stream.device());
    labels = testing::to_device<std::int32_t>(cyclic_labels(workers * examples, classes), stream);
  }

  /// Examples of the worker with global number `worker`.
  std::vector<float> images_of(int worker, std::uint64_t step) const {
    return random_floats(static_cast<std::size_t>(examples * image.num_elements()),
                         static_cast<std::uint32_t>(100 * step) + static_cast<std::uint32_t>(worker));
  }
  /// Labels, equal for all workers.
  std::vector<std::int32_t> labels_of() const { return cyclic_labels(examples, num_classes); }

  void load_examples(std::uint64_t step) {
    std::vector<float> all;
    std::vector<std::int32_t> all_labels;
    for (int w = 0; w < num_workers; ++w) {
      const auto own = images_of(first_worker + w, step);
      all.insert(all.end(), own.begin(), own.end());
      const auto own_labels = labels_of();
      all_labels.insert(all_labels.end(), own_labels.begin(), own_labels.end());
    }
    copy<float>(all, images.span(), stream);
    copy<std::int32_t>(all_labels, labels.span(), stream);
  }
  WorkerBuffers<float> worker_gradients() { return {gradients.data(), net->layout().flat_elements()}; }
  WorkerBuffers<float> worker_states() { return {states.data(), net->state_layout().flat_elements()}; }
  DeviceBatch batch(const DeviceStep& step) {
    return {.images = images.data(), .labels = labels.data(), .step = step, .states = worker_states()};
  }
  void run(std::uint64_t step) {
    load_examples(step);
    net->submit_gradients(parameters.data(), batch({.step = step}), worker_gradients(), losses.data());
  }
  std::vector<float> part(const Buffer<float>& all, int worker) {
    const auto size = static_cast<std::size_t>(all.num_elements() / num_workers);
    return testing::to_host<float>(all.span().subspan(static_cast<std::size_t>(worker) * size, size), stream);
  }
  std::vector<float> gradient(int worker) { return part(gradients, worker); }
  std::vector<float> state(int worker) { return part(states, worker); }
  std::vector<WorkerLoss> host_losses() { return testing::to_host<WorkerLoss>(losses.span(), stream); }
};

/// Bits of the tensors, without the padding between them.
inline std::vector<std::uint32_t> tensor_bits(const std::vector<float>& flat, const Layout& layout) {
  std::vector<std::uint32_t> bits;
  for (const Segment& segment : layout.segments()) {
    for (std::int64_t i = 0; i < segment.num_elements; ++i) {
      bits.push_back(std::bit_cast<std::uint32_t>(flat[static_cast<std::size_t>(segment.offset + i)]));
    }
  }
  return bits;
}

}  // namespace terngrad::test

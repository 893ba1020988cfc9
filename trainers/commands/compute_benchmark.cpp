#include "trainers/commands/compute_benchmark.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "compress/cost/sample_gradient.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/stopwatch.h"

namespace terngrad {

double probe_compute(Net& net, const NetOptions& options, int repetitions) {
  TERNGRAD_REQUIRE(repetitions >= 1, "[probe_compute] repetitions must be at least 1, got ", repetitions);
  const auto num_workers = static_cast<std::size_t>(options.num_local_workers);
  const std::int64_t num_examples = std::int64_t{options.num_local_workers} * options.examples_per_worker;

  Buffer<float> parameters(net.layout().flat_elements());
  net.initialize(options.seed, parameters.span());
  Buffer<float> images(num_examples * net.image_shape().num_elements());
  fill_sample_gradient(images.span(), options.seed, options.num_threads);
  std::vector<std::int32_t> labels(static_cast<std::size_t>(num_examples));
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i) % net.num_classes();
  std::vector<Buffer<float>> gradients;
  std::vector<Buffer<float>> states;
  std::vector<float*> gradient_pointers;
  std::vector<float*> state_pointers;
  for (std::size_t worker = 0; worker < num_workers; ++worker) {
    gradient_pointers.push_back(gradients.emplace_back(net.layout().flat_elements()).data());
    if (net.state_layout().num_segments() == 0) continue;
    net.initialize_state(states.emplace_back(net.state_layout().flat_elements()).span());
    state_pointers.push_back(states.back().data());
  }
  std::vector<WorkerLoss> losses(num_workers);

  std::vector<double> seconds;
  for (int i = 0; i <= repetitions; ++i) {
    auto begin = std::chrono::steady_clock::now();
    net.compute_gradients(parameters.span(), {images.span(), labels, static_cast<std::uint64_t>(i), state_pointers},
                          gradient_pointers, losses);
    if (i > 0) seconds.push_back(lap_seconds(begin));
  }
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::ranges::nth_element(seconds, middle);
  return *middle;
}

}  // namespace terngrad

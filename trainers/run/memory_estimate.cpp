#include "trainers/run/memory_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

constexpr double kGigabyte = 1e9;

/// Outputs of all layers for one example, which the backward pass reads.
double activation_elements(const NetPlan& plan) {
  double elements = 0;
  for (const LayerPlan& layer : plan.layers) elements += static_cast<double>(layer.output.num_elements());
  return elements;
}

}  // namespace

std::vector<MemoryPart> estimate_memory(const NetPlan& plan, const MemoryUse& use) {
  const double parameters = sizeof(float) * static_cast<double>(plan.layout.flat_elements());
  const double examples = sizeof(float) * static_cast<double>(use.examples_per_worker);
  const auto num_workers = static_cast<double>(use.num_workers);
  const std::string net = fmt::format("{} parameters of {} for images of {} x {} x {} in {} classes of data set {}",
                                      plan.layout.num_elements(), plan.name, plan.image.height, plan.image.width,
                                      plan.image.channels, plan.num_classes, use.data);
  const std::string smaller_net = "--image_size or the number of classes";
  std::vector<MemoryPart> parts;
  parts.push_back({.bytes = use.shared_buffers * parameters,
                   .what = "the " + net + ", their averages, mean gradient and slots of the optimizer",
                   .lower = smaller_net});
  parts.push_back({.bytes = num_workers * use.buffers_per_worker * parameters,
                   .what = fmt::format("the gradients of {} workers, each of the {}", use.num_workers, net),
                   .lower = use.num_workers > 1 ? "--num_nodes" : smaller_net});
  parts.push_back({.bytes = static_cast<double>(use.slices_at_once) * examples * activation_elements(plan),
                   .what = fmt::format("the activations of {} examples", use.slices_at_once * use.examples_per_worker),
                   .lower = "--batch_size"});
  parts.push_back(
      {.bytes = use.batches_at_once * num_workers * examples * static_cast<double>(plan.image.num_elements()),
       .what = fmt::format("{} batches of {} examples", use.batches_at_once, use.num_workers * use.examples_per_worker),
       .lower = "--batch_size"});
  return parts;
}

void require_memory(const std::vector<MemoryPart>& parts, const MemoryLimit& limit) {
  std::vector<MemoryPart> sorted = parts;
  std::ranges::sort(sorted, std::greater<>(), &MemoryPart::bytes);
  double sum = 0;
  std::string text;
  for (const MemoryPart& part : sorted) {
    sum += part.bytes;
    // What is less than a hundredth of the largest explains nothing.
    if (part.bytes < sorted.front().bytes / 100) continue;
    text += fmt::format("{}{:.2f} GB for {}", text.empty() ? "" : ", ", part.bytes / kGigabyte, part.what);
  }
  if (sum <= limit.bytes) return;
  TERNGRAD_THROW(UsageError,
                 fmt::format("this run needs at least {:.2f} GB of memory, and {} has {:.2f} GB: {}; lower {}",
                             sum / kGigabyte, limit.subject, limit.bytes / kGigabyte, text, sorted.front().lower));
}

}  // namespace terngrad

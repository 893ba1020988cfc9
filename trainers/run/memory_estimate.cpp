#include "trainers/run/memory_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "kernels/runtime/errors.h"
#include "nets/pass_memory.h"

namespace terngrad {
namespace {

constexpr double kGigabyte = 1e9;

constexpr double kFloat = sizeof(float);

double as_double(std::int64_t number) { return static_cast<double>(number); }

}  // namespace

std::vector<MemoryPart> estimate_memory(const NetPlan& plan, const MemoryUse& use) {
  const double parameters = kFloat * as_double(plan.layout.flat_elements());
  const double state = kFloat * as_double(plan.state_layout.flat_elements());
  const auto num_workers = as_double(use.num_workers);
  const std::int64_t num_examples = use.num_workers * use.examples_per_worker;
  const std::string net = fmt::format("{} parameters of {} for images of {} x {} x {} in {} classes of data set {}",
                                      plan.layout.num_elements(), plan.name, plan.image.height, plan.image.width,
                                      plan.image.channels, plan.num_classes, use.data);
  const std::string smaller_net = "--image_size or the number of classes";
  const std::string fewer_workers = use.num_workers > 1 ? "--num_nodes" : smaller_net;
  const double shared = use.has_parameters ? parameters : 0;
  const PassMemory::Elements slice = PassMemory::elements(plan, use.examples_per_worker, Mode::kTraining);
  const double slices = kFloat * as_double(use.slices_at_once);
  const std::string computed = fmt::format("of {} examples", use.slices_at_once * use.examples_per_worker);

  std::vector<MemoryPart> parts;
  const auto add = [&](double bytes, std::string what, const std::string& lower) {
    if (bytes > 0) parts.push_back({bytes, std::move(what), lower});
  };
  add(shared, "the " + net, smaller_net);
  add(shared, "the averages of the parameters", smaller_net);
  add(shared, "the gradient that is applied", smaller_net);
  add(use.num_slots * shared, "the slots of the optimizer " + use.optimizer, smaller_net);
  add(num_workers * parameters, fmt::format("the gradients of {} workers, each of the {}", use.num_workers, net),
      fewer_workers);
  add(use.num_groups > 0 ? (num_workers + as_double(use.num_groups)) * parameters : 0,
      fmt::format("what {} groups of workers add up, and their means", use.num_groups), fewer_workers);
  add(use.memory_bytes * as_double(use.num_senders * plan.layout.flat_elements()),
      fmt::format("what {} workers keep from step to step and what is encoded with it", use.num_senders),
      fewer_workers);
  // Its next value is of ranks that exchange.
  add(use.shared_memory_bytes / (use.num_senders > 0 ? 1 : 2) * as_double(plan.layout.flat_elements()),
      "the mean of what all workers keep", smaller_net);
  add(use.has_replicas ? num_workers * parameters : 0,
      fmt::format("the parameters of {} workers, each the {}", use.num_workers, net), fewer_workers);
  add((2 * num_workers + (use.has_parameters ? 1 : 0)) * state, "moving statistics", fewer_workers);
  add(slices * as_double(slice.activations), "the activations " + computed, "--batch_size");
  add(slices * as_double(slice.gradients), "the gradients of activations " + computed, "--batch_size");
  add(use.batches_at_once * kFloat * as_double(num_examples * (plan.image.num_elements() + 1)),
      fmt::format("{} batches of {} examples", use.batches_at_once, num_examples), "--batch_size");
  return parts;
}

void require_memory(const std::vector<MemoryPart>& parts, const MemoryLimit& limit) {
  std::vector<MemoryPart> sorted = parts;
  std::ranges::stable_sort(sorted, std::greater<>(), &MemoryPart::bytes);
  double sum = 0;
  for (const MemoryPart& part : parts) sum += part.bytes;
  std::string text;
  for (const MemoryPart& part : sorted) {
    // Omit parts below a hundredth of the largest one.
    if (part.bytes < sorted.front().bytes / 100) continue;
    text += fmt::format("{}{:.2f} GB for {}", text.empty() ? "" : ", ", part.bytes / kGigabyte, part.what);
  }
  if (sum <= limit.bytes) return;
  TERNGRAD_THROW(UsageError,
                 fmt::format("this run needs at least {:.2f} GB of memory, and {} has {:.2f} GB: {}; lower {}",
                             sum / kGigabyte, limit.subject, limit.bytes / kGigabyte, text, sorted.front().lower));
}

}  // namespace terngrad

#include "trainers/evaluate/evaluate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"

namespace terngrad {
namespace {

/// Gives a net on any device access to host values: directly on the CPU, else by a device copy.
class OnDevice {
 public:
  OnDevice(std::int64_t capacity, const Device& device) : stream_(device, 1) {
    if (device.is_cuda()) buffer_ = Buffer<float>(capacity, device);
  }
  /// Copies to the device if needed. @returns a span that is valid until the next call
  std::span<const float> upload(std::span<const float> host) {
    if (stream_.device().is_cpu()) return host;
    const std::span<float> target = buffer_.span().first(host.size());
    copy<float>(host, target, stream_);
    stream_.synchronize();
    return target;
  }
  /// Device memory to be filled by the net; `take` then copies it to `host`. On the CPU it is `host` itself.
  std::span<float> room(std::span<float> host) {
    return stream_.device().is_cpu() ? host : buffer_.span().first(host.size());
  }
  void take(std::span<float> host) {
    if (stream_.device().is_cpu()) return;
    copy<float>(buffer_.span().first(host.size()), host, stream_);
    stream_.synchronize();
  }

 private:
  Stream stream_;
  Buffer<float> buffer_;
};

/// The first class with the largest logit; kNoClass if a logit is NaN.
std::int32_t first_of_largest(std::span<const float> logits) {
  if (std::ranges::any_of(logits, [](float logit) { return std::isnan(logit); })) return kNoClass;
  return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
}

std::int64_t size_of(std::span<const float> values) { return static_cast<std::int64_t>(values.size()); }

}  // namespace

Evaluation evaluate(Net& net, std::span<const float> parameters, std::span<const float> state, const Dataset& dataset,
                    const EvaluationOptions& options) {
  const ImageShape shape = net.image_shape();
  const ImageShape found{dataset.height(), dataset.width(), dataset.channels()};
  TERNGRAD_REQUIRE(shape == found && net.num_classes() == dataset.num_classes(), "[evaluate] net ", net.name(),
                   " takes ", shape.height, "x", shape.width, "x", shape.channels, " images of ", net.num_classes(),
                   " classes, data set ", dataset.name(), " has ", found.height, "x", found.width, "x", found.channels,
                   " of ", dataset.num_classes());
  TERNGRAD_REQUIRE(options.batch_size >= 1, "[evaluate] batch_size must be at least 1, got ", options.batch_size);
  const std::span<std::int32_t> predicted = options.predicted;
  TERNGRAD_REQUIRE(predicted.empty() || static_cast<std::int64_t>(predicted.size()) == dataset.num_examples(),
                   "[evaluate] room for ", predicted.size(), " predictions, data set ", dataset.name(), " has ",
                   dataset.num_examples(), " examples");
  const auto classes = static_cast<std::size_t>(net.num_classes());
  const auto elements = static_cast<std::size_t>(dataset.image_elements());
  const std::int64_t batch = std::min(options.batch_size, std::max<std::int64_t>(dataset.num_examples(), 1));
  std::vector<float> images(static_cast<std::size_t>(batch) * elements);
  std::vector<float> logits(static_cast<std::size_t>(batch) * classes);
  OnDevice device_parameters(size_of(parameters), net.device());
  OnDevice device_state(size_of(state), net.device());
  OnDevice device_images(size_of(images), net.device());
  OnDevice device_logits(size_of(logits), net.device());
  const std::span<const float> net_parameters = device_parameters.upload(parameters);
  const std::span<const float> net_state = device_state.upload(state);
  Evaluation result;
  result.num_examples = dataset.num_examples();
  std::int64_t top1 = 0;
  std::int64_t top5 = 0;
  double loss = 0;
  for (std::int64_t first = 0; first < dataset.num_examples(); first += batch) {
    if (options.between) options.between();
    const std::int64_t count = std::min(batch, dataset.num_examples() - first);
    parallel_for(options.num_threads, count, 32, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        dataset.read(first + i, ExampleVisit{},
                     std::span(images).subspan(static_cast<std::size_t>(i) * elements, elements));
      }
    });
    const std::span<float> batch_logits = std::span(logits).first(static_cast<std::size_t>(count) * classes);
    net.predict(net_parameters, net_state,
                device_images.upload(std::span(images).first(static_cast<std::size_t>(count) * elements)),
                static_cast<int>(count), device_logits.room(batch_logits));
    device_logits.take(batch_logits);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::span<const float> row(logits.data() + static_cast<std::size_t>(i) * classes, classes);
      const std::int32_t label = dataset.label(first + i);
      const float own = row[static_cast<std::size_t>(label)];
      // The negated comparison counts NaN, in the label's or another logit, as better: never a hit.
      const auto better = std::count_if(row.begin(), row.end(), [own](float logit) { return !(logit <= own); });
      top1 += better < 1;
      top5 += better < 5;
      if (!predicted.empty())
        predicted[static_cast<std::size_t>(first + i)] = better < 1 ? label : first_of_largest(row);
      const auto max = static_cast<double>(*std::max_element(row.begin(), row.end()));
      double sum = 0;
      for (const float logit : row) sum += std::exp(static_cast<double>(logit) - max);
      loss += max + std::log(sum) - static_cast<double>(own);
    }
  }
  const auto n = static_cast<double>(std::max<std::int64_t>(result.num_examples, 1));
  result.top1 = static_cast<double>(top1) / n;
  result.top5 = static_cast<double>(top5) / n;
  result.loss = loss / n;
  return result;
}

std::string to_string(const Evaluation& evaluation) {
  char text[128];
  std::snprintf(text, sizeof(text), "top-1 = %.4f top-5 = %.4f [%lld examples]", evaluation.top1, evaluation.top5,
                static_cast<long long>(evaluation.num_examples));
  return text;
}

}  // namespace terngrad

#include "kernels/sparse/sparse_encoder.h"

#include <algorithm>
#include <cmath>

#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/sparse/cuda/sparse_encoder.h"

namespace terngrad {
namespace {

void check_tasks(std::span<const SparseEncodeTask> tasks) {
  for (const SparseEncodeTask& task : tasks) {
    TERNGRAD_REQUIRE(task.type == tasks[0].type, "[top_k] all slices of a call have one element type");
    require_aligned_elements(task.values, task.type, "top_k");
    TERNGRAD_REQUIRE(reinterpret_cast<std::uintptr_t>(task.payload) % 8 == 0,
                     "[top_k] payloads begin at multiples of 8");
    TERNGRAD_REQUIRE(task.shape.num_elements > 0, "[top_k] nothing is sent of a slice without elements");
    TERNGRAD_REQUIRE(task.shape.format == tasks[0].shape.format && task.shape.values == tasks[0].shape.values,
                     "[top_k] all slices of a call have one format and width of values");
    max_sparse_bytes(task.shape);  // throws for slices that the format cannot hold
  }
}

}  // namespace

SparseEncoder::SparseEncoder(Device device) : device_(device) {
  if (device.is_cuda()) cuda_ = cuda::make_sparse_encode_runner(device);
}

void SparseEncoder::run(std::span<const SparseEncodeTask> tasks, std::span<std::int64_t> bytes, Stream& stream) {
  TERNGRAD_REQUIRE(stream.device() == device_, "[top_k] made for ", device_.name(), ", the stream is for ",
                   stream.device().name());
  TERNGRAD_REQUIRE(bytes.size() == tasks.size(), "[top_k] ", tasks.size(), " payloads have lengths, there is room for ",
                   bytes.size());
  if (tasks.empty()) return;
  check_tasks(tasks);
  if (device_.is_cuda()) {
    for (std::size_t i = 0; i < tasks.size(); ++i) bytes[i] = max_sparse_bytes(tasks[i].shape);
    return cuda_->run(tasks, stream);
  }
  for (std::size_t i = 0; i < tasks.size(); ++i) bytes[i] = encode_on_cpu(tasks[i], stream);
}

std::int64_t SparseEncoder::encode_on_cpu(const SparseEncodeTask& task, Stream& stream) {
  const SparseShape& shape = task.shape;
  const auto count = static_cast<std::size_t>(num_kept(shape));
  places_.resize(count);
  values_.resize(count);
  const std::int64_t run = shape.format == SparseFormat::kLocal ? shape.block_elements : shape.num_elements;
  const std::int64_t num_runs = (shape.num_elements + run - 1) / run;
  const std::int64_t kept_of_run = top_k_count(run, shape.density);
  // Threads share the blocks among themselves, or work together on a single run.
  const auto num_parts = std::clamp<std::int64_t>(num_runs, 1, stream.num_threads());
  const int num_run_threads = num_parts > 1 ? 1 : stream.num_threads();
  selectors_.resize(std::max(selectors_.size(), static_cast<std::size_t>(num_parts)));
  parallel_for(stream.num_threads(), num_parts, 1, [&](std::int64_t begin, std::int64_t end) {
    Stream own(Device::cpu(), num_run_threads);
    for (std::int64_t part = begin; part < end; ++part) {
      TopKSelector& selector = selectors_[static_cast<std::size_t>(part)];
      for (std::int64_t i = num_runs * part / num_parts; i < num_runs * (part + 1) / num_parts; ++i) {
        const std::int64_t num_elements = std::min(run, shape.num_elements - i * run);
        choose(task, i * run, num_elements, top_k_count(num_elements, shape.density), selector,
               static_cast<std::size_t>(i * kept_of_run), own);
      }
    }
  });
  return write_sparse(shape, places_, values_, task.payload);
}

void SparseEncoder::choose(const SparseEncodeTask& task, std::int64_t first, std::int64_t count, std::int64_t k,
                           TopKSelector& selector, std::size_t at, Stream& stream) {
  const auto first_place = static_cast<std::uint32_t>(first);
  if (task.flag != nullptr && std::isnan(*task.flag)) {
    // A non-finite tensor counts as zeros, of which the first k are kept.
    for (std::int64_t i = 0; i < k; ++i, ++at) {
      places_[at] = first_place + static_cast<std::uint32_t>(i);
      values_[at] = 0;
    }
    return;
  }
  const void* const elements = element_at(task.values, task.type, first);
  for (const std::uint32_t place : selector.run(elements, task.type, count, k, stream)) {
    places_[at] = first_place + place;
    values_[at++] = element_as_float(elements, task.type, place);
  }
}

}  // namespace terngrad

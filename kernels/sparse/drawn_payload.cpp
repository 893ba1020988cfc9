#include "kernels/sparse/drawn_payload.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/codes/code_sum.h"
#include "kernels/runtime/cuda/grow.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/sparse/cuda/drawn_payload.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/slice.h"

namespace terngrad {
namespace {

constexpr std::int64_t kGrainGroups = 4096;
constexpr std::int64_t kDrawnGrainChunks = 4;

std::int64_t drawn_value_bytes(SparseValues values) { return values == SparseValues::kFloat32 ? 4 : 2; }

/// Computes the sent element of each group; fastest for groups in ascending order.
class DrawnPlaces {
 public:
  DrawnPlaces(std::uint64_t selection, std::int64_t group_elements)
      : selection_(selection), group_elements_(group_elements) {}

  std::int64_t of_group(std::int64_t group) {
    const auto number = static_cast<std::uint64_t>(group);
    if (number / 4 != block_number_) {
      block_number_ = number / 4;
      block_ = group_draws(selection_, block_number_);
    }
    return drawn_place(group, block_[number % 4], group_elements_);
  }

 private:
  std::uint64_t selection_;
  std::int64_t group_elements_;
  std::uint64_t block_number_ = ~std::uint64_t{0};
  std::array<std::uint32_t, 4> block_ = {};
};

std::uint64_t key_of(const std::uint8_t* payload) {
  std::uint64_t key = 0;
  std::memcpy(&key, payload, sizeof key);
  return key;
}

float read_value(SparseValues values, const std::uint8_t* payload, std::int64_t index) {
  if (values == SparseValues::kFloat32) return reinterpret_cast<const float*>(payload + kDrawnKeyBytes)[index];
  return from_bfloat16(reinterpret_cast<const std::uint16_t*>(payload + kDrawnKeyBytes)[index]);
}

void write_value(SparseValues values, std::uint8_t* payload, std::int64_t index, float value) {
  if (values == SparseValues::kFloat32) {
    reinterpret_cast<float*>(payload + kDrawnKeyBytes)[index] = value;
  } else {
    reinterpret_cast<std::uint16_t*>(payload + kDrawnKeyBytes)[index] = to_bfloat16(value);
  }
}

void encode_on_cpu(const DrawnEncodeTask& task, float factor, std::uint64_t seed, std::uint64_t step, Stream& stream) {
  const DrawnShape& shape = task.shape;
  const std::uint64_t selection = selection_key(seed, step, task.draw_offset);
  std::memset(task.payload, 0, static_cast<std::size_t>(drawn_bytes(shape)));
  std::memcpy(task.payload, &selection, sizeof selection);
  if (task.flag != nullptr && std::isnan(*task.flag)) return;
  parallel_for(stream.num_threads(), shape.num_groups(), kGrainGroups, [&](std::int64_t begin, std::int64_t end) {
    DrawnPlaces places(selection, shape.group_elements);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t place = places.of_group(shape.first_group() + i) - shape.first;
      if (place < 0 || place >= shape.count) continue;
      write_value(shape.values, task.payload, i, factor * element_as_float(task.values, task.type, place));
    }
  });
}

/// Sums payloads with different keys, which do not occur within a step.
void add_up_any(const DrawnSumTask& task, Stream& stream) {
  const auto bytes = static_cast<std::size_t>(drawn_bytes(task.shape));
  const auto leaf = [&](int worker, std::int64_t begin, std::span<float> decoded) {
    decode_drawn(task.shape, {task.payloads[static_cast<std::size_t>(worker)], bytes}, begin, decoded);
  };
  aggregate_tree(static_cast<int>(task.payloads.size()), task.shape.count, leaf, task.scale, task.out, stream);
}

/// Sums payloads with equal keys, so with values for the same elements, and scatters the sums.
void add_up(const DrawnSumTask& task, Stream& stream) {
  const DrawnShape& shape = task.shape;
  const std::uint64_t selection = key_of(task.payloads[0]);
  parallel_for(stream.num_threads(), (shape.count + kChunkElements - 1) / kChunkElements, kDrawnGrainChunks,
               [&](std::int64_t begin, std::int64_t end) {
                 Stream own;
                 DrawnPlaces places(selection, shape.group_elements);
                 std::array<float, kChunkElements + 1> sums;  // per group; a chunk touches at most one more
                 for (std::int64_t chunk = begin; chunk < end; ++chunk) {
                   const DrawnShape part{shape.first + chunk * kChunkElements,
                                         std::min(kChunkElements, shape.count - chunk * kChunkElements),
                                         shape.group_elements, shape.values};
                   const auto leaf = [&](int worker, std::int64_t at, std::span<float> decoded) {
                     const std::uint8_t* const payload = task.payloads[static_cast<std::size_t>(worker)];
                     const std::int64_t first = part.first_group() - shape.first_group() + at;
                     for (std::size_t i = 0; i < decoded.size(); ++i) {
                       decoded[i] = read_value(shape.values, payload, first + static_cast<std::int64_t>(i));
                     }
                   };
                   aggregate_tree(static_cast<int>(task.payloads.size()), part.num_groups(), leaf, task.scale,
                                  sums.data(), own);
                   float* const out = task.out + chunk * kChunkElements;
                   std::fill_n(out, part.count, 0.0f);
                   for (std::int64_t i = 0; i < part.num_groups(); ++i) {
                     const std::int64_t place = places.of_group(part.first_group() + i) - part.first;
                     if (place >= 0 && place < part.count) out[place] = sums[static_cast<std::size_t>(i)];
                   }
                 }
               });
}

}  // namespace

std::int64_t drawn_bytes(const DrawnShape& shape) {
  if (shape.count == 0) return 0;
  return kDrawnKeyBytes + (shape.num_groups() * drawn_value_bytes(shape.values) + 3) / 4 * 4;
}

void check_drawn(const DrawnShape& shape, std::span<const std::uint8_t> payload) {
  const std::int64_t expected = drawn_bytes(shape);
  if (static_cast<std::int64_t>(payload.size()) != expected) {
    TERNGRAD_THROW(CommunicationError, "[drawn] payload of ", shape.count, " elements has ", payload.size(),
                   " bytes, expected ", expected);
  }
  if (shape.count == 0) return;
  DrawnPlaces places(key_of(payload.data()), shape.group_elements);
  // Only the first and last group can have their element outside the slice.
  for (const std::int64_t i : {std::int64_t{0}, shape.num_groups() - 1}) {
    const std::int64_t place = places.of_group(shape.first_group() + i) - shape.first;
    if (place >= 0 && place < shape.count) continue;
    if (std::bit_cast<std::uint32_t>(read_value(shape.values, payload.data(), i)) != 0) {
      TERNGRAD_THROW(CommunicationError, "[drawn] payload has a value of element ", shape.first + place,
                     ", which is none of the slice's ", shape.first, " to ", shape.first + shape.count - 1);
    }
  }
  const auto used = static_cast<std::size_t>(kDrawnKeyBytes + shape.num_groups() * drawn_value_bytes(shape.values));
  if (std::ranges::any_of(payload.subspan(used), [](std::uint8_t byte) { return byte != 0; })) {
    TERNGRAD_THROW(CommunicationError, "[drawn] payload is filled up with other bytes than zeros");
  }
}

void decode_drawn(const DrawnShape& shape, std::span<const std::uint8_t> payload, std::int64_t first,
                  std::span<float> out) {
  std::ranges::fill(out, 0.0f);
  const DrawnShape part{shape.first + first, static_cast<std::int64_t>(out.size()), shape.group_elements, shape.values};
  if (part.count == 0) return;
  DrawnPlaces places(key_of(payload.data()), shape.group_elements);
  for (std::int64_t group = part.first_group(); group < part.first_group() + part.num_groups(); ++group) {
    const std::int64_t place = places.of_group(group) - part.first;
    if (place < 0 || place >= part.count) continue;
    out[static_cast<std::size_t>(place)] = read_value(shape.values, payload.data(), group - shape.first_group());
  }
}

DrawnEncoder::DrawnEncoder(Device device) : device_(device) {
  if (device.is_cuda()) cuda_ = cuda::make_drawn_runner(device);
}

void DrawnEncoder::run(std::span<const DrawnEncodeTask> tasks, float factor, std::uint64_t seed, std::uint64_t step,
                       Stream& stream, const std::uint64_t* device_step) {
  TERNGRAD_REQUIRE(stream.device() == device_, "[drawn] made for ", device_.name(), ", the stream is for ",
                   stream.device().name());
  TERNGRAD_REQUIRE(device_step == nullptr || device_.is_cuda(), "[drawn] device_step is for a GPU's stream");
  for (const DrawnEncodeTask& task : tasks) {
    TERNGRAD_REQUIRE(task.type == tasks[0].type && task.shape.values == tasks[0].shape.values,
                     "[drawn] all slices of a call have one element type and width of values");
    TERNGRAD_REQUIRE(task.shape.count > 0, "[drawn] nothing is sent of a slice without elements");
    require_aligned_elements(task.values, task.type, "drawn");
    TERNGRAD_REQUIRE(reinterpret_cast<std::uintptr_t>(task.payload) % 8 == 0,
                     "[drawn] payloads begin at multiples of 8");
  }
  if (tasks.empty()) return;
  if (device_.is_cuda()) {
    return cuda_->encode(tasks, factor, {seed, step, 0, DrawPurpose::kSelect}, device_step, stream);
  }
  for (const DrawnEncodeTask& task : tasks) encode_on_cpu(task, factor, seed, step, stream);
}

DrawnSummer::DrawnSummer(Device device) : device_(device), summer_(device), means_(0, device) {
  if (device.is_cuda()) cuda_ = cuda::make_drawn_runner(device);
}

void DrawnSummer::run(std::span<const DrawnSumTask> tasks, Stream& stream) {
  TERNGRAD_REQUIRE(stream.device() == device_, "[drawn] made for ", device_.name(), ", the stream is for ",
                   stream.device().name());
  for (const DrawnSumTask& task : tasks) {
    TERNGRAD_REQUIRE(!task.payloads.empty() && task.shape.count > 0,
                     "[drawn] a sum needs the message of at least one worker, and elements");
  }
  if (device_.is_cuda()) return sum_on_gpu(tasks, stream);
  for (const DrawnSumTask& task : tasks) {
    const std::uint64_t selection = key_of(task.payloads[0]);
    const bool is_one = std::ranges::all_of(task.payloads, [&](const auto* p) { return key_of(p) == selection; });
    is_one ? add_up(task, stream) : add_up_any(task, stream);
  }
}

void DrawnSummer::sum_on_gpu(std::span<const DrawnSumTask> tasks, Stream& stream) {
  std::int64_t num_means = 0;
  std::size_t num_leaves = 0;
  for (const DrawnSumTask& task : tasks) {
    num_means += task.shape.num_groups();
    num_leaves += task.payloads.size();
  }
  cuda::grow(means_, num_means, stream);
  leaves_.clear();
  leaves_.reserve(num_leaves);  // tasks keep pointers into it
  sums_.clear();
  float* mean = means_.data();
  for (const DrawnSumTask& task : tasks) {
    const std::size_t first_leaf = leaves_.size();
    const auto bytes = static_cast<std::size_t>(task.shape.num_groups() * drawn_value_bytes(task.shape.values));
    for (const std::uint8_t* payload : task.payloads) {
      leaves_.push_back({.payload = {payload + kDrawnKeyBytes, bytes}});
    }
    const bool is_fp32 = task.shape.values == SparseValues::kFloat32;
    sums_.push_back({.format = is_fp32 ? LeafFormat::kFloat32 : LeafFormat::kBfloat16,
                     .workers = {leaves_.data() + first_leaf, task.payloads.size()},
                     .count = task.shape.num_groups(),
                     .scale = task.scale,
                     .out = mean});
    mean += task.shape.num_groups();
  }
  summer_.run(sums_, stream);
  cuda_->scatter(tasks, means_.data(), stream);
}

}  // namespace terngrad

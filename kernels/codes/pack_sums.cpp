#include "kernels/codes/pack_sums.h"

#include <algorithm>
#include <cstring>

#include "kernels/codes/code_sum.h"
#include "kernels/codes/cuda/pack_sums.h"
#include "kernels/codes/lanes.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

void pack_sums(std::span<const float> sums, int num_workers, int lane_levels, std::uint8_t* payload) {
  const int bits = lane_bits(num_workers, lane_levels);
  const int bias = lane_bias(num_workers, lane_levels);
  const auto per_word = static_cast<std::size_t>(lanes_per_word(bits));
  for (std::size_t first = 0; first < sums.size(); first += per_word, payload += 8) {
    const std::size_t end = std::min(sums.size(), first + per_word);
    std::uint64_t word = 0;
    for (std::size_t i = end; i-- > first;) {
      word = word << bits | static_cast<std::uint64_t>(static_cast<int>(sums[i]) + bias);
    }
    std::memcpy(payload, &word, 8);
  }
}

void pack_sums(std::span<const float> sums, int num_workers, std::uint8_t* payload) {
  pack_sums(sums, num_workers, 2, payload);
}

SumPacker::SumPacker(int num_workers, Device device) : SumPacker(num_workers, 2, device) {}

SumPacker::SumPacker(int num_workers, int lane_levels, Device device)
    : num_workers_(num_workers), lane_levels_(lane_levels), device_(device) {
  TERNGRAD_REQUIRE(num_workers >= 1 && num_workers <= kMaxSummedWorkers, "[lanes] codes of 1 to ", kMaxSummedWorkers,
                   " workers can be summed, got ", num_workers);
  lane_bits(num_workers, lane_levels);  // throws for sums that float32 cannot represent
  if (device.is_cuda()) cuda_ = cuda::make_sum_pack_runner(num_workers, lane_levels, device);
}

void SumPacker::run(std::span<const SumPackTask> tasks, Stream& stream) {
  TERNGRAD_REQUIRE(stream.device() == device_, "[lanes] the packer is for ", device_.name(), ", the stream for ",
                   stream.device().name());
  for (const SumPackTask& task : tasks) {
    TERNGRAD_REQUIRE(reinterpret_cast<std::uintptr_t>(task.payload) % sizeof(std::uint64_t) == 0,
                     "[lanes] a payload must begin at a multiple of 8 bytes");
  }
  if (cuda_ != nullptr) return cuda_->run(tasks, stream);
  for (const SumPackTask& task : tasks) {
    pack_sums({task.sums, static_cast<std::size_t>(task.count)}, num_workers_, lane_levels_, task.payload);
  }
}

}  // namespace terngrad

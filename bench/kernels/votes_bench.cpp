// Votes on the signs of eight messages.
#include "kernels/codes/votes.h"

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "bench/device_memory.h"
#include "bench/rows.h"

namespace terngrad::bench {
namespace {

constexpr std::size_t kVoters = 8;
constexpr float kScale = 0.025f;

using Signs = std::vector<std::vector<std::uint8_t>>;

/// Random bits of each worker.
Signs random_signs(std::int64_t n) {
  std::mt19937_64 random(1);
  Signs signs(kVoters, std::vector<std::uint8_t>(static_cast<std::size_t>(payload_bytes(CodeFormat::kBits, n, 1))));
  for (std::vector<std::uint8_t>& worker : signs) {
    for (std::uint8_t& byte : worker) byte = static_cast<std::uint8_t>(random());
  }
  return signs;
}

/// True if a mean is the scale times the majority of the signs, on 65,536 elements spread over it.
bool is_right(const Signs& signs, const std::vector<float>& mean) {
  for (std::size_t i = 0; i < mean.size(); i += std::max<std::size_t>(1, mean.size() / 65536)) {
    int majority = 0;
    for (const std::vector<std::uint8_t>& worker : signs) majority += (worker[i / 8] >> (i % 8) & 1) != 0 ? -1 : 1;
    const int vote = majority > 0 ? 1 : majority < 0 ? -1 : 0;
    if (mean[i] != kScale * static_cast<float>(vote)) return false;
  }
  return true;
}

Subject votes(std::int64_t n) {
  const auto signs = std::make_shared<const Signs>(random_signs(n));
  const auto bytes = static_cast<std::int64_t>(signs->front().size());
  const auto prepare = [=](Stream& stream) {
    struct Set {
      std::vector<Input<std::uint8_t>> payloads;
      std::vector<const std::uint8_t*> pointers;
      std::vector<std::int64_t> bytes;
      Buffer<float> scale, out;
      VoteCounter counter;
    };
    const auto set = std::make_shared<Set>(Set{{},
                                               {},
                                               std::vector<std::int64_t>(kVoters, bytes),
                                               on_device(std::span(&kScale, 1), stream),
                                               Buffer<float>(n, stream.device()),
                                               VoteCounter(stream.device())});
    for (const std::vector<std::uint8_t>& worker : *signs) {
      set->payloads.emplace_back(worker, stream);
      set->pointers.push_back(set->payloads.back().data());
    }
    const CodeSumTask task{.format = CodeFormat::kBits,
                           .payloads = set->pointers,
                           .payload_bytes = set->bytes,
                           .num_workers = static_cast<int>(kVoters),
                           .count = n,
                           .scales = set->scale.data(),
                           .out = set->out.data()};
    const auto run = [=, &stream] { set->counter.run({&task, 1}, stream); };
    const auto check = [=, &stream] { return is_right(*signs, on_host(set->out.span(), stream)); };
    return Work{run, check};
  };
  const auto elements = static_cast<double>(n);
  return {.bytes = 4 * elements + static_cast<double>(kVoters) * static_cast<double>(bytes),
          .elements = elements,
          .prepare = prepare};
}

const Registration registration(__FILE__, [](Rows& rows) { rows.add("votes8", "f32", votes); });

}  // namespace
}  // namespace terngrad::bench

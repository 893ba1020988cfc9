#include "bench/messages.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <span>

#include "bench/device_memory.h"
#include "bench/gradients.h"
#include "kernels/codes/codebook_codes.h"
#include "kernels/codes/levels.h"
#include "kernels/codes/ternarize.h"
#include "kernels/runtime/parallel.h"

namespace terngrad::bench {
namespace {

/// One task for each payload. @tparam Task  TernarizeTask or QuantizeTask
template <class Task>
std::vector<Task> tasks_of(Messages& messages) {
  std::vector<Task> tasks(messages.payloads.size());
  for (std::size_t k = 0; k < tasks.size(); ++k) {
    tasks[k].gradient = gradient(messages.num_codes).data();
    tasks[k].count = messages.num_codes;
    tasks[k].scalers = &kMessageScaler;
    tasks[k].payload = reinterpret_cast<std::uint8_t*>(messages.payloads[k].data());
    tasks[k].worker = static_cast<std::uint32_t>(k);
  }
  return tasks;
}

}  // namespace

PackedCodes Messages::codes(std::size_t worker) const {
  const auto length = static_cast<std::size_t>(bytes[worker]);
  return {format, bytes_of(payloads[worker].span()).first(length), num_codes, static_cast<int>(payloads.size())};
}

double Messages::total_bytes() const {
  return static_cast<double>(std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0}));
}

Messages encode_messages(std::int64_t n, CodeFormat format, int num_workers) {
  const std::int64_t room = payload_bytes(format, n, num_workers);
  Messages messages{format, n, {}, std::vector<std::int64_t>(static_cast<std::size_t>(num_workers), room)};
  for (int worker = 0; worker < num_workers; ++worker) messages.payloads.emplace_back((room + 7) / 8);
  Stream stream;
  if (format == CodeFormat::kQ4 || format == CodeFormat::kQ8) {
    LevelQuantizer().run(tasks_of<QuantizeTask>(messages), {.bits = format == CodeFormat::kQ4 ? 4 : 8},
                         {1, 1, 0, DrawPurpose::kQuantize}, stream);
  } else if (is_codebook(format)) {
    CodebookQuantizer().run(tasks_of<QuantizeTask>(messages), 1 << codebook_bits(format), stream);
  } else {
    ternarize(tasks_of<TernarizeTask>(messages), {.format = format, .num_workers = num_workers},
              {1, 1, 0, DrawPurpose::kTernarize}, messages.bytes, stream);
  }
  return messages;
}

bool all_chunks(std::int64_t n, const std::function<bool(std::int64_t first, std::int64_t count)>& is_right) {
  std::atomic<bool> are_right = true;
  parallel_for(num_hardware_threads(), n, kChunkElements, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = begin; first < end; first += kChunkElements) {
      if (!is_right(first, std::min(kChunkElements, end - first))) are_right = false;
    }
  });
  return are_right;
}

}  // namespace terngrad::bench

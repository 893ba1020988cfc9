// Sums of the codes of eight messages, and decoding of one.
#include "kernels/codes/code_sum.h"

#include <memory>
#include <vector>

#include "bench/device_memory.h"
#include "bench/messages.h"
#include "bench/rows.h"

namespace terngrad::bench {
namespace {

constexpr int kMessages = 8;

/// True if a mean is the definition's.
bool is_right(const Messages& messages, float scale, std::span<const float> mean) {
  // A lane of one worker lacks the bias of the others.
  const int missing = messages.format == CodeFormat::kLanes ? lane_bias(kMessages - 1) : 0;
  return all_chunks(messages.num_codes, [&](std::int64_t first, std::int64_t count) {
    std::vector<std::int16_t> codes(static_cast<std::size_t>(count));
    std::vector<int> sums(codes.size());
    for (std::size_t k = 0; k < messages.payloads.size(); ++k) {
      unpack_codes(messages.codes(k), first, codes);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += codes[i] + missing;
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (mean[static_cast<std::size_t>(first) + i] != scale * static_cast<float>(sums[i])) return false;
    }
    return true;
  });
}

Subject code_sums(std::int64_t n, CodeFormat format, int num_messages) {
  const auto messages = std::make_shared<const Messages>(encode_messages(n, format, num_messages));
  const float scale = kMessageScaler / static_cast<float>(num_messages);
  const auto prepare = [=](Stream& stream) {
    struct Set {
      std::vector<Input<std::uint8_t>> payloads;
      std::vector<const std::uint8_t*> pointers;
      Buffer<float> scale, out;
      CodeSummer summer;
    };
    const auto set = std::make_shared<Set>(Set{{},
                                               {},
                                               on_device(std::span(&scale, 1), stream),
                                               Buffer<float>(n, stream.device()),
                                               CodeSummer(stream.device())});
    for (std::size_t k = 0; k < messages->payloads.size(); ++k) {
      set->payloads.emplace_back(messages->codes(k).payload, stream);
      set->pointers.push_back(set->payloads.back().data());
    }
    const CodeSumTask task{.format = format,
                           .payloads = set->pointers,
                           .payload_bytes = messages->bytes,
                           .num_workers = format == CodeFormat::kLanes ? kMessages : 1,
                           .count = n,
                           .scales = set->scale.data(),
                           .out = set->out.data()};
    const auto run = [=, &stream] { set->summer.run({&task, 1}, stream); };
    const auto check = [=, &stream] { return is_right(*messages, scale, on_host(set->out.span(), stream)); };
    return Work{run, check};
  };
  const auto elements = static_cast<double>(n);
  return {.bytes = messages->total_bytes() + 4 * elements, .elements = elements, .prepare = prepare};
}

const Registration registration(__FILE__, [](Rows& rows) {
  const auto add = [&](const std::string& name, CodeFormat format, int num_messages, Devices devices) {
    rows.add(name, "f32", [=](std::int64_t n) { return code_sums(n, format, num_messages); }, {.devices = devices});
  };
  for (const CodeFormat format :
       {CodeFormat::kT2, CodeFormat::kT5, CodeFormat::kTMask, CodeFormat::kQ4, CodeFormat::kQ8}) {
    add("aggregate8_" + to_string(format), format, kMessages, Devices::kBoth);
  }
  add("aggregate8_lanes", CodeFormat::kLanes, kMessages, Devices::kCuda);
  add("aggregate8_trans", CodeFormat::kTrans, kMessages, Devices::kCpu);
  add("decode_trans", CodeFormat::kTrans, 1, Devices::kCpu);
});

}  // namespace
}  // namespace terngrad::bench

#include "kernels/codes/code_sum.h"

#include <cstring>
#include <memory>
#include <vector>

#include "bench/harness.h"
#include "bench/subjects.h"
#include "kernels/codes/levels.h"
#include "kernels/codes/ternarize.h"

namespace terngrad::bench {
namespace {

constexpr std::size_t kMessages = 8;

struct State {
  std::vector<Buffer<std::uint8_t>> payloads;
  std::vector<const std::uint8_t*> pointers;
  std::vector<std::int64_t> bytes;
  float scale = 0;
  Buffer<float> out;
};

/// Encodes the gradient as worker k sends it. @returns bytes written
std::int64_t encode(std::int64_t n, CodeFormat format, std::size_t k, std::uint8_t* payload) {
  constexpr float kScaler = 0.025f;
  Stream all;
  const auto worker = static_cast<std::uint32_t>(k);
  if (format == CodeFormat::kQ4 || format == CodeFormat::kQ8) {
    const QuantizeTask task{.gradient = gradient(n), .count = n, .scalers = &kScaler, .payload = payload};
    LevelQuantizer().run({&task, 1}, {.bits = format == CodeFormat::kQ4 ? 4 : 8},
                         {1, 1, worker, DrawPurpose::kQuantize}, all);
    return payload_bytes(format, n, 1);
  }
  TernarizeTask task;
  task.gradient = gradient(n);
  task.count = n;
  task.scalers = &kScaler;
  task.payload = payload;
  std::int64_t used = 0;
  ternarize({&task, 1}, {.format = format}, {1, 1, worker, DrawPurpose::kTernarize}, {&used, 1}, all);
  return used;
}

Subject code_sums(std::int64_t n, CodeFormat format, std::size_t num_messages) {
  auto state = std::make_shared<State>();
  state->scale = 0.025f / static_cast<float>(num_messages);
  state->out = Buffer<float>(n);
  double encoded_bytes = 0;
  Subject subject;
  for (std::size_t k = 0; k < num_messages; ++k) {
    state->payloads.emplace_back(payload_bytes(format, n, 1));
    const std::int64_t used = encode(n, format, k, state->payloads.back().data());
    state->pointers.push_back(state->payloads.back().data());
    state->bytes.push_back(used);
    encoded_bytes += static_cast<double>(used);
  }
  subject.elements = static_cast<double>(n);
  subject.bytes = encoded_bytes + 4.0 * static_cast<double>(n);
  subject.prepare = [=](Stream& stream) -> std::function<void()> {
    return [=, &stream] {
      const CodeSumTask task{.format = format,
                             .payloads = state->pointers,
                             .payload_bytes = state->bytes,
                             .num_workers = 1,
                             .first = 0,
                             .count = n,
                             .block_elements = 0,
                             .scales = &state->scale,
                             .out = state->out.data()};
      aggregate_code_sums({&task, 1}, stream);
    };
  };
  subject.check = [=] {
    const std::int64_t stride = std::max<std::int64_t>(1, n / 65536);
    for (std::int64_t i = 0; i < n; i += stride) {
      int sum = 0;
      for (std::size_t k = 0; k < num_messages; ++k) {
        std::int16_t code = 0;
        unpack_codes({format, {state->pointers[k], static_cast<std::size_t>(state->bytes[k])}, n, 1}, i, {&code, 1});
        sum += code;
      }
      if (state->out.data()[i] != state->scale * static_cast<float>(sum)) return false;
    }
    return true;
  };
  return subject;
}

Subject float_tree(std::int64_t n) {
  auto inputs = std::make_shared<std::vector<Buffer<float>>>();
  for (std::size_t k = 0; k < kMessages; ++k) inputs->push_back(make_gradient(n, k + 2));
  auto out = std::make_shared<Buffer<float>>(n);
  Subject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = 4.0 * (kMessages + 1) * static_cast<double>(n);
  subject.prepare = [=](Stream& stream) -> std::function<void()> {
    return [=, &stream] {
      aggregate_tree(
          kMessages, n,
          [&](int worker, std::int64_t first, std::span<float> tile) {
            std::memcpy(tile.data(), (*inputs)[static_cast<std::size_t>(worker)].data() + first, tile.size_bytes());
          },
          1.0f / kMessages, out->data(), stream);
    };
  };
  subject.check = [=] {
    for (std::int64_t i = 0; i < n; i += std::max<std::int64_t>(1, n / 65536)) {
      const auto v = [&](std::size_t k) { return (*inputs)[k].data()[i]; };
      const float sum = ((v(0) + v(1)) + (v(2) + v(3))) + ((v(4) + v(5)) + (v(6) + v(7)));
      if (out->data()[i] != sum * (1.0f / kMessages)) return false;
    }
    return true;
  };
  return subject;
}

}  // namespace

void register_aggregate() {
  for (const std::int64_t n : sizes()) {
    for (const int threads : thread_counts()) {
      for (const CodeFormat format : {CodeFormat::kT2, CodeFormat::kT5, CodeFormat::kTMask, CodeFormat::kTrans,
                                      CodeFormat::kQ4, CodeFormat::kQ8}) {
        register_subject(bench_name("aggregate8_" + to_string(format), "f32", n, threads), n, threads,
                         [=] { return code_sums(n, format, kMessages); });
      }
      register_subject(bench_name("decode_trans", "f32", n, threads), n, threads,
                       [=] { return code_sums(n, CodeFormat::kTrans, 1); });
      if (n <= 1 << 23) {
        register_subject(bench_name("aggregate8_fp32", "f32", n, threads), n, threads, [n] { return float_tree(n); });
      }
    }
  }
}

}  // namespace terngrad::bench

#include "bench/sign_check.h"

#include <algorithm>
#include <random>

#include "kernels/codes/ternary_pack.h"

namespace terngrad::bench {
namespace {

bool bit_of(std::span<const std::uint8_t> bits, std::int64_t i) {
  return (bits[static_cast<std::size_t>(i / 8)] >> (i % 8) & 1) != 0;
}

/// Of worker 0 in step 1, on 65,536 elements spread over it.
bool signs_are_right(std::span<const std::uint8_t> payload, std::int64_t n, const float* gradient) {
  check_payload({CodeFormat::kBits, payload, n});
  for (std::int64_t i = 0; i < n; i += std::max<std::int64_t>(1, n / 65536)) {
    const bool expected = gradient[i] != 0 ? gradient[i] < 0 : (1 + i) % 2 == 1;
    if (bit_of(payload, i) != expected) return false;
  }
  return true;
}

QuantizeBench<SignOptions> sign_bench(ElementType type) {
  return {.name = "signs",
          .options = {},
          .type = type,
          .scaler = 0.01f,
          .payload_bytes = [](std::int64_t n) { return payload_bytes(CodeFormat::kBits, n, 1); },
          .is_right = signs_are_right};
}

}  // namespace

std::vector<QuantizeBench<SignOptions>> sign_benches() {
  return {sign_bench(ElementType::kFloat32), sign_bench(ElementType::kBfloat16)};
}

std::vector<std::vector<std::uint8_t>> random_signs(std::int64_t n) {
  std::mt19937_64 random(1);
  std::vector<std::vector<std::uint8_t>> signs(kVoters);
  for (std::vector<std::uint8_t>& of_worker : signs) {
    of_worker.resize(static_cast<std::size_t>(payload_bytes(CodeFormat::kBits, n, 1)));
    for (std::uint8_t& byte : of_worker) byte = static_cast<std::uint8_t>(random());
  }
  return signs;
}

bool votes_are_right(std::span<const std::vector<std::uint8_t>> signs, std::int64_t n, float scale, const float* mean) {
  for (std::int64_t i = 0; i < n; i += std::max<std::int64_t>(1, n / 65536)) {
    int majority = 0;
    for (const std::vector<std::uint8_t>& of_worker : signs) majority += bit_of(of_worker, i) ? -1 : 1;
    const int vote = majority > 0 ? 1 : majority < 0 ? -1 : 0;
    if (mean[i] != scale * static_cast<float>(vote)) return false;
  }
  return true;
}

}  // namespace terngrad::bench

// Random codes of several workers, packed by the CPU backend, in host and device memory.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/codes/levels.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/copy.h"

namespace terngrad::testing {

inline std::vector<std::int8_t> random_ternary_codes(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::uint64_t zeros_in_8 = seed % 8;  // some workers have few zeros, some many
  std::vector<std::int8_t> codes(n);
  for (auto& code : codes) code = static_cast<std::int8_t>(random() % 8 < zeros_in_8 ? 0 : random() % 2 == 0 ? 1 : -1);
  return codes;
}

/// Random codes in [-levels, levels], with zeros as in random_ternary_codes.
inline std::vector<std::int8_t> random_codes(std::size_t n, int levels, std::uint64_t seed) {
  std::vector<std::int8_t> codes = random_ternary_codes(n, seed);
  std::mt19937_64 random(seed + 1);
  for (auto& code : codes) {
    if (levels > 1)
      code = static_cast<std::int8_t>(code * (1 + static_cast<int>(random() % static_cast<unsigned>(levels))));
  }
  return codes;
}

/// Packed codes in a buffer of exactly the payload's size.
inline Buffer<std::uint8_t> packed_codes(std::span<const std::int8_t> codes, CodeFormat format, int num_workers) {
  const auto n = static_cast<std::int64_t>(codes.size());
  Buffer<std::uint8_t> room(payload_bytes(format, n, num_workers));
  const std::int64_t bytes = pack_codes(codes, format, num_workers, room.span());
  Buffer<std::uint8_t> payload(bytes);
  Stream cpu(Device::cpu(), 1);
  copy<std::uint8_t>(room.span().first(static_cast<std::size_t>(bytes)), payload.span(), cpu);
  return payload;
}

/// Payloads of `num_workers` workers on host and device, with the pointer tables that tasks take.
struct PackedWorkers {
  std::vector<Buffer<std::uint8_t>> host;
  std::vector<Buffer<std::uint8_t>> device;
  std::vector<const std::uint8_t*> host_payloads;
  std::vector<const std::uint8_t*> device_payloads;
  std::vector<std::int64_t> bytes;

  PackedWorkers(int num_workers, std::int64_t n, CodeFormat format, std::uint64_t seed, Stream& stream) {
    for (int worker = 0; worker < num_workers; ++worker) {
      const int levels = format == CodeFormat::kLanes ? 1 : levels_of(format);
      const auto codes = random_codes(static_cast<std::size_t>(n), levels, seed + static_cast<std::uint64_t>(worker));
      host.push_back(packed_codes(codes, format, num_workers));
      device.emplace_back(host.back().num_elements(), stream.device());
      copy<std::uint8_t>(host.back().span(), device.back().span(), stream);
      host_payloads.push_back(host.back().data());
      device_payloads.push_back(device.back().data());
      bytes.push_back(host.back().num_elements());
    }
  }
};

}  // namespace terngrad::testing

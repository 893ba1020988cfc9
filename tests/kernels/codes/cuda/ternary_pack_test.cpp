// Unpacking of codes and arithmetic on lanes on a GPU against the CPU backend.
#include "kernels/codes/ternary_pack.h"
#include "kernels/codes/pack_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "kernels/runtime/errors.h"
#include "support/cuda_device.h"
#include "support/packed_workers.h"

namespace terngrad::cuda_ternary_pack_test {
namespace {

using testing::packed_codes;
using testing::random_ternary_codes;
using testing::to_device;
using testing::to_host;

constexpr TernaryFormat kFormats[] = {TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kTMask,
                                      TernaryFormat::kLanes};
constexpr std::int16_t kUntouched = -9999;
constexpr std::size_t kMargin = 8;  // guard codes around out

/// A payload on both devices.
struct Payload {
  TernaryFormat format;
  std::int64_t num_codes;
  int num_workers;
  Buffer<std::uint8_t> host;
  Buffer<std::uint8_t> device;

  Payload(TernaryFormat payload_format, Buffer<std::uint8_t> payload, std::int64_t count, int workers, Stream& cuda)
      : format(payload_format),
        num_codes(count),
        num_workers(workers),
        host(std::move(payload)),
        device(to_device<std::uint8_t>(host.span(), cuda)) {}
  PackedCodes on_host() const { return {format, host.span(), num_codes, num_workers}; }
  PackedCodes on_device() const { return {format, device.span(), num_codes, num_workers}; }
};

Payload payload_of(TernaryFormat format, std::int64_t n, int num_workers, std::uint64_t seed, Stream& cuda) {
  const auto codes = random_ternary_codes(static_cast<std::size_t>(n), seed);
  return {format, packed_codes(codes, format, num_workers), n, num_workers, cuda};
}

/// Integers in [-num_workers, num_workers], including both ends.
std::vector<float> random_sums(std::size_t n, int num_workers, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> sums(n);
  for (float& sum : sums) {
    sum =
        static_cast<float>(static_cast<int>(random() % static_cast<std::uint64_t>(2 * num_workers + 1)) - num_workers);
  }
  if (n > 1) sums[0] = static_cast<float>(-num_workers);
  if (n > 1) sums[1] = static_cast<float>(num_workers);
  return sums;
}

void expect_same_codes(const Payload& payload, std::int64_t first, std::int64_t count, std::size_t misalignment,
                       Stream& cuda) {
  std::vector<std::int16_t> expected(static_cast<std::size_t>(count) + 2 * kMargin, kUntouched);
  Buffer<std::int16_t> found = to_device<std::int16_t>(expected, cuda);
  const auto size = static_cast<std::size_t>(count);
  unpack_codes(payload.on_host(), first, std::span(expected).subspan(misalignment, size));
  unpack_codes(payload.on_device(), first, found.span().subspan(misalignment, size), cuda);
  ASSERT_EQ(to_host<std::int16_t>(found.span(), cuda), expected)
      << to_string(payload.format) << " of " << payload.num_codes << ", " << count << " from " << first << ", out + "
      << misalignment;
}

using CudaUnpack = testing::CudaTest;

TEST_F(CudaUnpack, GivesTheCpusCodesAtRaggedLengths) {
  Stream cuda(Device::cuda());
  for (const TernaryFormat format : kFormats) {
    for (const std::int64_t n :
         {0, 1, 3, 4, 5, 15, 16, 17, 31, 32, 33, 1023, 1024, 1025, 4095, 4096, 4097, 8192, 9001}) {
      expect_same_codes(payload_of(format, n, 3, static_cast<std::uint64_t>(n), cuda), 0, n, 0, cuda);
    }
  }
}

TEST_F(CudaUnpack, GivesAnyRangeAtAnyAlignment) {
  Stream cuda(Device::cuda());
  constexpr std::int64_t kCodes = 13001;
  for (const TernaryFormat format : kFormats) {
    const Payload payload = payload_of(format, kCodes, 5, 1, cuda);
    for (std::size_t start = 0; start < kMargin; ++start) {
      expect_same_codes(payload, static_cast<std::int64_t>(start), 100, (3 * start) % kMargin, cuda);
    }
    std::mt19937_64 random(7);
    for (int trial = 0; trial < 30; ++trial) {
      const auto first = static_cast<std::int64_t>(random() % kCodes);
      const auto most = static_cast<std::uint64_t>(kCodes - first);
      const auto count =
          static_cast<std::int64_t>(random() % (std::min<std::uint64_t>(most, trial % 2 == 0 ? 20 : most) + 1));
      expect_same_codes(payload, first, count, random() % kMargin, cuda);
    }
    expect_same_codes(payload, kCodes, 0, 0, cuda);
  }
}

TEST_F(CudaUnpack, ReadsEveryRunOfFiveCodesOfT5) {
  Stream cuda(Device::cuda());
  std::vector<std::int8_t> codes;
  for (int value = 0; value < 243; ++value) {
    for (int i = 0, rest = value; i < 5; ++i, rest /= 3) codes.push_back(static_cast<std::int8_t>(rest % 3 - 1));
  }
  const auto n = static_cast<std::int64_t>(codes.size());
  const Payload payload(TernaryFormat::kT5, packed_codes(codes, TernaryFormat::kT5, 1), n, 1, cuda);
  Buffer<std::int16_t> found(n, Device::cuda());
  unpack_codes(payload.on_device(), 0, found.span(), cuda);
  EXPECT_EQ(to_host<std::int16_t>(found.span(), cuda), std::vector<std::int16_t>(codes.begin(), codes.end()));
}

TEST_F(CudaUnpack, ReadsMasksOfAnyDensity) {
  Stream cuda(Device::cuda());
  for (const int zeros : {0, 1, 31, 4096}) {
    // Runs of `zeros` zeros between non-zeros, so that signs begin at each bit of a word.
    std::vector<std::int8_t> codes(9000, 0);
    for (std::size_t i = 0, k = 0; i < codes.size(); i += static_cast<std::size_t>(zeros) + 1, ++k) {
      codes[i] = k % 3 == 0 ? -1 : 1;
    }
    const Payload payload(TernaryFormat::kTMask, packed_codes(codes, TernaryFormat::kTMask, 1), 9000, 1, cuda);
    expect_same_codes(payload, 0, 9000, 0, cuda);
    expect_same_codes(payload, 5000, 3100, 1, cuda);
  }
}

TEST_F(CudaUnpack, RefusesWhatTheCpuRefuses) {
  Stream cuda(Device::cuda());
  const Payload payload = payload_of(TernaryFormat::kT2, 20, 1, 1, cuda);
  Buffer<std::int16_t> out(10, Device::cuda());
  EXPECT_THROW(unpack_codes(payload.on_device(), 11, out.span(), cuda), InvalidArgument);
  EXPECT_THROW(unpack_codes(payload.on_device(), -1, out.span(), cuda), InvalidArgument);
  PackedCodes moved = payload.on_device();
  moved.payload = moved.payload.subspan(2);
  EXPECT_THROW(unpack_codes(moved, 0, out.span(), cuda), InvalidArgument);
  const Payload lanes = payload_of(TernaryFormat::kLanes, 20, 3, 1, cuda);
  moved = lanes.on_device();
  moved.payload = moved.payload.subspan(4);
  EXPECT_THROW(unpack_codes(moved, 0, out.span(), cuda), InvalidArgument);
}

TEST_F(CudaUnpack, OnTheCpusStreamIsTheCpus) {
  Stream cpu(Device::cpu(), 1);
  const auto codes = random_ternary_codes(100, 3);
  const Buffer<std::uint8_t> payload = packed_codes(codes, TernaryFormat::kT2, 1);
  std::vector<std::int16_t> out(100);
  unpack_codes({TernaryFormat::kT2, payload.span(), 100, 1}, 0, out, cpu);
  EXPECT_EQ(out, std::vector<std::int16_t>(codes.begin(), codes.end()));
}

using CudaLanes = testing::CudaTest;

TEST_F(CudaLanes, OfSumsUnpackLikeTheCpus) {
  Stream cuda(Device::cuda());
  for (const int workers : {1, 2, 3, 4, 5, 8, 16, 127, 128, 300, 1000, 16383}) {
    for (const std::int64_t n : {0, 1, 3, 15, 16, 17, 100, 1023, 1024, 1025, 5000, 8192, 8193, 17000}) {
      Buffer<std::uint8_t> payload(payload_bytes(TernaryFormat::kLanes, n, workers));
      pack_sums(random_sums(static_cast<std::size_t>(n), workers, static_cast<std::uint64_t>(n) + 1), workers,
                payload.data());
      expect_same_codes({TernaryFormat::kLanes, std::move(payload), n, workers, cuda}, 0, n, 0, cuda);
    }
  }
}

TEST_F(CudaLanes, AddUpLikeTheCpus) {
  Stream cuda(Device::cuda());
  for (const std::size_t n : {0u, 1u, 2u, 3u, 511u, 512u, 513u, 3001u}) {
    for (const std::size_t start : {0u, 1u}) {
      std::mt19937_64 random(n);
      std::vector<std::uint64_t> lanes(n + 2);
      std::vector<std::uint64_t> other(n + 2);
      for (auto& word : lanes) word = random() >> 1;
      for (auto& word : other) word = random() >> 1;
      Buffer<std::uint64_t> device_lanes = to_device<std::uint64_t>(lanes, cuda);
      const Buffer<std::uint64_t> device_other = to_device<std::uint64_t>(other, cuda);
      add_lanes(std::span(lanes).subspan(start, n), std::span(other).subspan(1, n));
      add_lanes(device_lanes.span().subspan(start, n), device_other.span().subspan(1, n), cuda);
      ASSERT_EQ(to_host<std::uint64_t>(device_lanes.span(), cuda), lanes) << n << " from " << start;
      add_lanes(std::span(lanes).subspan(start, n), std::span(other).subspan(0, n));
      add_lanes(device_lanes.span().subspan(start, n), device_other.span().subspan(0, n), cuda);
      ASSERT_EQ(to_host<std::uint64_t>(device_lanes.span(), cuda), lanes) << n << " from " << start;
    }
  }
}

TEST_F(CudaLanes, RefuseWhatTheyCannotHold) {
  Stream cuda(Device::cuda());
  Buffer<std::uint64_t> a(2, Device::cuda());
  const Buffer<std::uint64_t> b(3, Device::cuda());
  EXPECT_THROW(add_lanes(a.span(), b.span(), cuda), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cuda_ternary_pack_test

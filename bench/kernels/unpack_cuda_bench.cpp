// Unpacking of codes, packing of sums, and additions of lanes.
#include <memory>
#include <vector>

#include "bench/cuda_harness.h"
#include "bench/cuda_messages.h"
#include "bench/cuda_subjects.h"
#include "kernels/codes/pack_sums.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/copy.h"

namespace terngrad::bench {
namespace {

constexpr int kWorkers = 8;

CudaSubject unpack(std::int64_t n, TernaryFormat format) {
  struct Set {
    CudaMessages messages;
    Buffer<std::int16_t> out;
  };
  const auto sets = std::make_shared<std::vector<Set>>();
  CudaSubject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = 2.0 * subject.elements + message_bytes(n, format, 1);
  subject.prepare = [=](Stream& stream, int num_sets) {
    const std::vector<Buffer<float>> gradient = gradients_on(stream, n, 1);
    std::vector<std::function<void()>> works;
    for (int i = 0; i < num_sets; ++i) {
      sets->push_back({make_messages(gradient.front(), format, 1, stream), Buffer<std::int16_t>(n, stream.device())});
      const auto bytes = static_cast<std::size_t>(sets->back().messages.bytes.front());
      const PackedCodes codes{format, {sets->back().messages.pointers().front(), bytes}, n, 1};
      const std::span<std::int16_t> out = sets->back().out.span();
      works.emplace_back([=, &stream] { unpack_codes(codes, 0, out, stream); });
    }
    return works;
  };
  subject.check = [=](Stream& stream) {
    std::vector<std::int16_t> found(static_cast<std::size_t>(n));
    std::vector<std::int16_t> expected(found.size());
    copy<std::int16_t>(sets->back().out.span(), std::span(found), stream);
    unpack_codes(on_host(sets->back().messages, n, format, stream).codes.front(), 0, expected);
    return found == expected;
  };
  return subject;
}

/// Sums of kWorkers codes, from -kWorkers to kWorkers.
std::vector<float> make_sums(std::int64_t n) {
  std::vector<float> sums(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i] = static_cast<float>(static_cast<int>(i * 7919 % (2 * kWorkers + 1)) - kWorkers);
  }
  return sums;
}

CudaSubject pack_lanes(std::int64_t n) {
  struct Set {
    Buffer<float> sums;
    Buffer<std::uint64_t> payload;
  };
  const auto sets = std::make_shared<std::vector<Set>>();
  const std::int64_t bytes = payload_bytes(TernaryFormat::kLanes, n, kWorkers);
  CudaSubject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = 4.0 * subject.elements + static_cast<double>(bytes);
  subject.prepare = [=](Stream& stream, int num_sets) {
    const std::vector<float> sums = make_sums(n);
    std::vector<std::function<void()>> works;
    for (int i = 0; i < num_sets; ++i) {
      sets->push_back({Buffer<float>(n, stream.device()), Buffer<std::uint64_t>(bytes / 8, stream.device())});
      copy<float>(sums, sets->back().sums.span(), stream);
      const std::span<const float> of_set = sets->back().sums.span();
      auto* payload = reinterpret_cast<std::uint8_t*>(sets->back().payload.data());
      const auto packer = std::make_shared<SumPacker>(kWorkers, stream.device());
      works.emplace_back([=, &stream] {
        const SumPackTask task{.sums = of_set.data(), .count = n, .payload = payload};
        packer->run({&task, 1}, stream);
      });
    }
    return works;
  };
  subject.check = [=](Stream& stream) {
    std::vector<std::uint64_t> found(static_cast<std::size_t>(bytes / 8));
    std::vector<std::uint64_t> expected(found.size());
    copy<std::uint64_t>(sets->back().payload.span(), std::span(found), stream);
    stream.synchronize();
    pack_sums(make_sums(n), kWorkers, reinterpret_cast<std::uint8_t*>(expected.data()));
    return found == expected;
  };
  return subject;
}

CudaSubject add_lane_words(std::int64_t n) {
  struct Set {
    Buffer<std::uint64_t> lanes;
    Buffer<std::uint64_t> other;
  };
  const auto sets = std::make_shared<std::vector<Set>>();
  const std::int64_t words = payload_bytes(TernaryFormat::kLanes, n, kWorkers) / 8;
  CudaSubject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = 24.0 * static_cast<double>(words);
  subject.prepare = [=](Stream& stream, int num_sets) {
    std::vector<std::uint64_t> values(static_cast<std::size_t>(words));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = i;
    std::vector<std::function<void()>> works;
    for (int i = 0; i < num_sets; ++i) {
      sets->push_back({Buffer<std::uint64_t>(words, stream.device()), Buffer<std::uint64_t>(words, stream.device())});
      fill_zero(sets->back().lanes.span(), stream);
      copy<std::uint64_t>(values, sets->back().other.span(), stream);
      const std::span<std::uint64_t> lanes = sets->back().lanes.span();
      const std::span<const std::uint64_t> other = sets->back().other.span();
      works.emplace_back([=, &stream] { add_lanes(lanes, other, stream); });
    }
    return works;
  };
  subject.check = [=](Stream& stream) {
    std::vector<std::uint64_t> found(static_cast<std::size_t>(words));
    copy<std::uint64_t>(sets->back().lanes.span(), std::span(found), stream);
    stream.synchronize();
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i] != i) return false;
    }
    return true;
  };
  return subject;
}

}  // namespace

void register_cuda_unpack() {
  for (const auto& [sizes, residency] :
       {std::pair(cuda_memory_sizes(), Residency::kMemory), std::pair(cuda_cache_sizes(), Residency::kCache)}) {
    for (const std::int64_t n : sizes) {
      const auto count = static_cast<double>(n);
      for (const TernaryFormat format :
           {TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kTMask, TernaryFormat::kLanes}) {
        register_cuda_subject(cuda_bench_name("unpack_" + to_string(format), "i16", n), 2.25 * count, residency,
                              [=] { return unpack(n, format); });
      }
      register_cuda_subject(cuda_bench_name("pack_sums", "f32", n), 4.5 * count, residency,
                            [n] { return pack_lanes(n); });
      register_cuda_subject(cuda_bench_name("add_lanes", "u64", n),
                            2.0 * static_cast<double>(payload_bytes(TernaryFormat::kLanes, n, kWorkers)), residency,
                            [n] { return add_lane_words(n); });
    }
  }
}

}  // namespace terngrad::bench

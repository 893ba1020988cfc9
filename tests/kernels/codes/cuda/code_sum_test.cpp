// Sums of codes on a GPU against the CPU backend, bit for bit.
#include "kernels/codes/code_sum.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "kernels/codes/pack_sums.h"
#include "kernels/codes/ternarize.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/slice.h"
#include "support/bits.h"
#include "support/cuda_device.h"
#include "support/packed_workers.h"

namespace terngrad::cuda_code_sum_test {
namespace {

using testing::bits_of;
using testing::PackedWorkers;
using testing::to_device;
using testing::to_host;

constexpr CodeFormat kFormats[] = {CodeFormat::kT2,    CodeFormat::kT5, CodeFormat::kTMask,
                                   CodeFormat::kLanes, CodeFormat::kQ4, CodeFormat::kQ8};
constexpr float kUntouched = -99.0f;
constexpr std::size_t kMargin = 8;  // guard elements around out

/// Arguments of one slice, for both backends.
struct Case {
  CodeFormat format = CodeFormat::kT2;
  int num_workers = 3;
  std::int64_t count = 0;
  std::int64_t first = 0;
  std::int64_t block_elements = 0;
  std::size_t misalignment = 0;    // out: offset in elements
  std::vector<float> scales = {};  // empty: random, one per block

  std::string text() const {
    return to_string(format) + ", " + std::to_string(num_workers) + " workers, " + std::to_string(count) + " from " +
           std::to_string(first) + ", blocks of " + std::to_string(block_elements) + ", out + " +
           std::to_string(misalignment);
  }
};

/// A case's memory on both devices.
class Prepared {
 public:
  Prepared(const Case& c, std::uint64_t seed, Stream& cuda)
      : workers_(c.num_workers, c.count, c.format, seed, cuda), case_(c), scales_(c.scales) {
    for (std::int64_t b = 0; c.scales.empty() && b < num_blocks(c.first, c.count, c.block_elements); ++b) {
      scales_.push_back(0.1f * static_cast<float>(b + 1));
    }
    host_out_.assign(static_cast<std::size_t>(c.count) + 2 * kMargin, kUntouched);
    device_scales_ = to_device<float>(scales_, cuda);
    device_out_ = to_device<float>(host_out_, cuda);
  }

  CodeSumTask host_task() {
    return task(workers_.host_payloads, scales_.data(), host_out_.data() + case_.misalignment);
  }
  CodeSumTask device_task() {
    return task(workers_.device_payloads, device_scales_.data(), device_out_.data() + case_.misalignment);
  }
  void expect_equal(Stream& cuda) {
    const std::vector<float> found = to_host<float>(device_out_.span(), cuda);
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(bits_of(found[i]), bits_of(host_out_[i])) << case_.text() << ", place " << i;
    }
  }

 private:
  CodeSumTask task(std::span<const std::uint8_t* const> payloads, const float* scales, float* out) const {
    return {.format = case_.format,
            .payloads = payloads,
            .payload_bytes = workers_.bytes,
            .num_workers = case_.num_workers,
            .first = case_.first,
            .count = case_.count,
            .block_elements = case_.block_elements,
            .scales = scales,
            .out = out};
  }
  PackedWorkers workers_;
  Case case_;
  std::vector<float> scales_;
  std::vector<float> host_out_;
  Buffer<float> device_scales_;
  Buffer<float> device_out_;
};

class CudaCodeSums : public testing::CudaTest {
 protected:
  void expect_the_cpus(std::span<const Case> cases) {
    Stream cpu(Device::cpu(), 1);
    Stream cuda(Device::cuda());
    std::vector<Prepared> prepared;
    std::vector<CodeSumTask> host_tasks;
    std::vector<CodeSumTask> device_tasks;
    for (const Case& c : cases) prepared.emplace_back(c, 1 + 7 * prepared.size(), cuda);
    for (Prepared& p : prepared) {
      host_tasks.push_back(p.host_task());
      device_tasks.push_back(p.device_task());
    }
    aggregate_code_sums(host_tasks, cpu);
    aggregate_code_sums(device_tasks, cuda);
    for (Prepared& p : prepared) p.expect_equal(cuda);
  }
  void expect_the_cpus(const Case& c) { expect_the_cpus({&c, 1}); }
};

TEST_F(CudaCodeSums, AreTheCpusAtRaggedLengths) {
  for (const TernaryFormat format : kFormats) {
    for (const std::int64_t n : {0,    1,    2,    3,    4,    5,    15,   16,   17,   31,   32,   33,   63,   65,
                                 1023, 1024, 1025, 2047, 3073, 4095, 4096, 4097, 4101, 8191, 8192, 8193, 12300}) {
      expect_the_cpus(Case{.format = format, .count = n});
    }
  }
}

TEST_F(CudaCodeSums, AreTheCpusForEveryNumberOfWorkers) {
  // Batches of 8; bytes hold sums of up to 85 codes; 16-bit counters are flushed after 80.
  for (const TernaryFormat format : kFormats) {
    for (const int workers : {1, 2, 3, 7, 8, 9, 16, 17, 79, 80, 81, 85, 86, 88, 127, 128, 300}) {
      expect_the_cpus(Case{.format = format, .num_workers = workers, .count = workers < 20 ? 4500 : 700});
    }
  }
}

TEST_F(CudaCodeSums, ReadLanesOfLevels) {
  Stream cpu(Device::cpu(), 1);
  Stream cuda(Device::cuda());
  for (const int m : {14, 254}) {
    for (const int num_workers : {1, 3, 300, 1000, 16383}) {  // from 4 to 22 bits per lane
      for (const std::int64_t n : {1, 5, 4095, 4098, 9001}) {
        std::vector<float> sums(static_cast<std::size_t>(n));
        for (std::size_t i = 0; i < sums.size(); ++i) {
          sums[i] = static_cast<float>(static_cast<int>(i * 7919 % static_cast<unsigned>(m * num_workers + 1)) -
                                       m / 2 * num_workers);
        }
        const std::int64_t bytes = payload_bytes(CodeFormat::kLanes, n, num_workers, m);
        std::vector<std::uint64_t> words(static_cast<std::size_t>(bytes) / 8);
        pack_sums(sums, num_workers, m, reinterpret_cast<std::uint8_t*>(words.data()));
        const Buffer<std::uint64_t> on_device = to_device<std::uint64_t>(words, cuda);
        const float scale = 0.1f;
        const Buffer<float> device_scale = to_device<float>({&scale, 1}, cuda);
        std::vector<float> expected(sums.size());
        Buffer<float> found(n, Device::cuda());
        const auto* host_payload = reinterpret_cast<const std::uint8_t*>(words.data());
        const auto* device_payload = reinterpret_cast<const std::uint8_t*>(on_device.data());
        const auto task = [&](const std::uint8_t* const& payload, const float* scales, float* out) {
          return CodeSumTask{.format = CodeFormat::kLanes,
                             .payloads = {&payload, 1},
                             .payload_bytes = {&bytes, 1},
                             .num_workers = num_workers,
                             .count = n,
                             .scales = scales,
                             .out = out,
                             .lane_levels = m};
        };
        const CodeSumTask host_task = task(host_payload, &scale, expected.data());
        const CodeSumTask device_task = task(device_payload, device_scale.data(), found.data());
        aggregate_code_sums({&host_task, 1}, cpu);
        aggregate_code_sums({&device_task, 1}, cuda);
        for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(bits_of(expected[i]), bits_of(scale * sums[i])) << i;
        ASSERT_EQ(bits_of(to_host<float>(found.span(), cuda)), bits_of(expected)) << m << " levels, " << num_workers;
      }
    }
  }
}

TEST_F(CudaCodeSums, HoldTheMaxSums) {
  // All workers send the same codes, so that all counters reach their limit.
  Stream cpu(Device::cpu(), 1);
  Stream cuda(Device::cuda());
  const float scale = 0.5f;
  const Buffer<float> device_scale = to_device<float>({&scale, 1}, cuda);
  for (const TernaryFormat format : {TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kTMask}) {
    for (const int code : {-1, 1}) {
      const std::vector<std::int8_t> codes(40, static_cast<std::int8_t>(code));
      const Buffer<std::uint8_t> host = testing::packed_codes(codes, format, 1);
      const Buffer<std::uint8_t> device = to_device<std::uint8_t>(host.span(), cuda);
      // Slow in the emulation; 16-bit counters work alike in all formats.
      const std::size_t most = format == TernaryFormat::kT2 ? std::size_t{kMaxSummedWorkers} : 1000;
      for (const std::size_t workers : {std::size_t{85}, std::size_t{86}, most}) {
        const std::vector<const std::uint8_t*> payloads(workers, device.data());
        const std::vector<std::int64_t> bytes(workers, host.num_elements());
        Buffer<float> out(40, Device::cuda());
        const CodeSumTask task{.format = format,
                               .payloads = payloads,
                               .payload_bytes = bytes,
                               .count = 40,
                               .scales = device_scale.data(),
                               .out = out.data()};
        aggregate_code_sums({&task, 1}, cuda);
        EXPECT_EQ(to_host<float>(out.span(), cuda),
                  std::vector<float>(40, 0.5f * static_cast<float>(code) * static_cast<float>(workers)))
            << to_string(format) << ", " << workers;
      }
    }
  }
}

TEST_F(CudaCodeSums, WriteToAnyAlignment) {
  for (const TernaryFormat format : kFormats) {
    for (std::size_t start = 0; start < kMargin; ++start) {
      expect_the_cpus(Case{.format = format, .count = 4096 + 35, .misalignment = start});
    }
  }
}

TEST_F(CudaCodeSums, TakeAScalePerBlock) {
  for (const TernaryFormat format : kFormats) {
    for (const std::int64_t block : {64, 128, 192, 4032, 4096, 4160, 8192, 10048, 1 << 20}) {
      for (const std::int64_t first : {0, 4096, 12288}) {
        expect_the_cpus(Case{.format = format, .count = 9001, .first = first, .block_elements = block});
      }
    }
  }
  for (const std::int64_t count : {1, 63, 64, 65, 4095}) expect_the_cpus(Case{.count = count, .block_elements = 64});
}

TEST_F(CudaCodeSums, CountBlocksFarIntoASegment) {
  // Positions beyond 32 bits.
  for (const std::int64_t block : {std::int64_t{64}, std::int64_t{4160}, std::int64_t{3} << 31}) {
    for (const std::int64_t first : {std::int64_t{1} << 33, (std::int64_t{3} << 34) + 4096}) {
      expect_the_cpus(Case{.count = 5000, .first = first, .block_elements = block});
    }
  }
}

TEST_F(CudaCodeSums, TakeManyTasksOfAllFormatsAtOnce) {
  std::vector<Case> cases;
  for (const int workers : {2, 100}) {
    for (const std::int64_t count : {70, 0, 4097, 1}) {
      for (const TernaryFormat format : kFormats) {
        cases.push_back({.format = format,
                         .num_workers = workers,
                         .count = count,
                         .first = 4096 * count,
                         .block_elements = count % 2 == 0 ? 0 : 64,
                         .misalignment = static_cast<std::size_t>(count % 5)});
      }
    }
  }
  expect_the_cpus(cases);
}

TEST_F(CudaCodeSums, TakeHostileScales) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const TernaryFormat format : kFormats) {
    for (const float scale : {std::numeric_limits<float>::quiet_NaN(), 0.0f, -0.0f, -0.3f,
                              std::numeric_limits<float>::denorm_min(), 0x1p-126f, 0x1p126f, 3e38f}) {
      expect_the_cpus(Case{.format = format, .count = 4100, .scales = {scale}});
    }
    // No zero sums: zero times infinity is a NaN with platform-dependent bits.
    Stream cuda(Device::cuda());
    const std::vector<std::int8_t> codes(20, 1);
    const Buffer<std::uint8_t> payload = to_device<std::uint8_t>(testing::packed_codes(codes, format, 1).span(), cuda);
    const std::uint8_t* pointer = payload.data();
    const std::int64_t bytes = payload.num_elements();
    const Buffer<float> scale = to_device<float>({&infinity, 1}, cuda);
    Buffer<float> out(20, Device::cuda());
    const CodeSumTask task{.format = format,
                           .payloads = {&pointer, 1},
                           .payload_bytes = {&bytes, 1},
                           .count = 20,
                           .scales = scale.data(),
                           .out = out.data()};
    aggregate_code_sums({&task, 1}, cuda);
    EXPECT_EQ(to_host<float>(out.span(), cuda), std::vector<float>(20, infinity)) << to_string(format);
  }
}

TEST_F(CudaCodeSums, ReadLanesThatAreSumsThemselves) {
  for (const int workers : {1, 3, 8, 100, kMaxSummedWorkers}) {
    constexpr std::size_t kCount = 4999;
    Stream cpu(Device::cpu(), 1);
    Stream cuda(Device::cuda());
    std::mt19937_64 random(static_cast<std::uint64_t>(workers));
    std::vector<float> sums(kCount);
    for (float& sum : sums) {
      sum = static_cast<float>(static_cast<int>(random() % static_cast<std::uint64_t>(2 * workers + 1)) - workers);
    }
    Buffer<std::uint8_t> host(payload_bytes(TernaryFormat::kLanes, kCount, workers));
    pack_sums(sums, workers, host.data());
    const Buffer<std::uint8_t> device = to_device<std::uint8_t>(host.span(), cuda);
    const float scale = 0.3f;
    const Buffer<float> device_scale = to_device<float>({&scale, 1}, cuda);
    std::vector<float> expected(kCount);
    Buffer<float> found(kCount, Device::cuda());
    const auto run = [&](const std::uint8_t* payload, const float* scales, float* out, Stream& stream) {
      const std::int64_t bytes = host.num_elements();
      const CodeSumTask task{.format = TernaryFormat::kLanes,
                             .payloads = {&payload, 1},
                             .payload_bytes = {&bytes, 1},
                             .num_workers = workers,
                             .count = kCount,
                             .scales = scales,
                             .out = out};
      aggregate_code_sums({&task, 1}, stream);
    };
    run(host.data(), &scale, expected.data(), cpu);
    run(device.data(), device_scale.data(), found.data(), cuda);
    EXPECT_EQ(bits_of(to_host<float>(found.span(), cuda)), bits_of(expected)) << workers;
  }
}

TEST_F(CudaCodeSums, OfASummerFollowItsTasks) {
  Stream cpu(Device::cpu(), 1);
  Stream cuda(Device::cuda());
  CodeSummer on_cpu;
  CodeSummer on_cuda(Device::cuda());
  // Fewer, more and the same tasks again: the tables on the GPU must be updated.
  for (const std::int64_t count : {5000, 100, 20000, 20000, 0, 4096}) {
    for (const int workers : {3, 20}) {
      Prepared prepared({.num_workers = workers, .count = count}, static_cast<std::uint64_t>(count), cuda);
      const CodeSumTask host_task = prepared.host_task();
      const CodeSumTask device_task = prepared.device_task();
      on_cpu.run({&host_task, 1}, cpu);
      on_cuda.run({&device_task, 1}, cuda);
      on_cuda.run({&device_task, 1}, cuda);
      prepared.expect_equal(cuda);
    }
  }
  on_cuda.run({}, cuda);
}

TEST_F(CudaCodeSums, RefuseWhatTheyCannotRead) {
  Stream cpu(Device::cpu(), 1);
  Stream cuda(Device::cuda());
  Prepared prepared({.count = 100}, 1, cuda);
  const CodeSumTask good = prepared.device_task();
  CodeSummer summer(Device::cuda());
  EXPECT_THROW(summer.run({&good, 1}, cpu), InvalidArgument);
  EXPECT_THROW(CodeSummer().run({&good, 1}, cuda), InvalidArgument);

  CodeSumTask bad = good;
  bad.count = 200;
  EXPECT_THROW(summer.run({&bad, 1}, cuda), InvalidArgument);
  bad = good;
  bad.first = 64;
  EXPECT_THROW(summer.run({&bad, 1}, cuda), InvalidArgument);
  bad = good;
  std::vector<const std::uint8_t*> moved(good.payloads.begin(), good.payloads.end());
  moved[1] += 2;
  bad.payloads = moved;
  EXPECT_THROW(summer.run({&bad, 1}, cuda), InvalidArgument);
  Prepared lanes({.format = TernaryFormat::kLanes, .count = 100}, 1, cuda);
  bad = lanes.device_task();
  moved.assign(bad.payloads.begin(), bad.payloads.end());
  moved[2] += 4;
  bad.payloads = moved;
  EXPECT_THROW(summer.run({&bad, 1}, cuda), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cuda_code_sum_test

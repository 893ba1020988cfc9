// Ternarize and pack on a GPU against the CPU backend, byte for byte.
#include "kernels/codes/ternarize.h"
#include "kernels/statistics/scaler_limits.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>

#include "kernels/runtime/errors.h"
#include "support/cuda_device.h"
#include "support/gradients.h"

namespace terngrad::cuda_ternarize_test {
namespace {

using testing::to_device;
using testing::to_host;
using CudaTernarize = testing::CudaTest;

constexpr TernaryFormat kFormats[] = {TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kTMask,
                                      TernaryFormat::kLanes};

/// Arguments of one slice, in host memory.
struct Case {
  std::vector<float> gradient;
  std::vector<float> scalers;
  std::vector<float> clips;  // empty: no clipping
  std::int64_t first = 0;
  std::int64_t draw_offset = 0;
  std::int64_t block_elements = 0;
  std::uint32_t worker = 0;
  std::size_t misalignment = 0;  // gradient on the device: offset in elements

  std::int64_t count() const { return static_cast<std::int64_t>(gradient.size()); }
};

Case gaussian_case(std::int64_t count, std::uint64_t seed, float scaler) {
  Case result;
  result.gradient = testing::gaussian(static_cast<std::size_t>(count), seed);
  result.scalers = {scaler};
  return result;
}

TernarizeTask task_of(const Case& c, const float* gradient, const float* scalers, const float* clips,
                      std::uint8_t* payload) {
  return {.gradient = gradient,
          .first = c.first,
          .count = c.count(),
          .draw_offset = c.draw_offset,
          .block_elements = c.block_elements,
          .scalers = scalers,
          .clips = c.clips.empty() ? nullptr : clips,
          .payload = payload,
          .worker = c.worker};
}

/// A case in device memory; the payload is filled with a pattern that ternarize must overwrite.
struct OnDevice {
  Buffer<float> gradient, scalers, clips;
  Buffer<std::uint64_t> payload;
  TernarizeTask task;

  OnDevice(const Case& c, std::int64_t payload_bytes, Stream& stream) {
    std::vector<float> moved(c.misalignment, 1e30f);
    moved.insert(moved.end(), c.gradient.begin(), c.gradient.end());
    gradient = to_device<float>(moved, stream);
    scalers = to_device<float>(c.scalers, stream);
    clips = to_device<float>(c.clips, stream);
    payload = to_device<std::uint64_t>(
        std::vector<std::uint64_t>(static_cast<std::size_t>(payload_bytes + 7) / 8, 0xa5a5a5a5a5a5a5a5u), stream);
    task = task_of(c, gradient.data() + c.misalignment, scalers.data(), clips.data(),
                   reinterpret_cast<std::uint8_t*>(payload.data()));
  }
};

struct Encoded {
  std::vector<std::vector<std::uint8_t>> payloads;
};

const DrawKey kKey = {
    .seed = 0x123456789abcdef0u, .step = 0x34'56789abcu, .worker = 3, .purpose = DrawPurpose::kTernarize};

Encoded on_cpu(std::span<const Case> cases, const TernarizeOptions& options, const DrawKey& key = kKey) {
  Stream stream(Device::cpu(), 1);
  std::vector<std::vector<std::uint64_t>> memory;
  std::vector<TernarizeTask> tasks;
  for (const Case& c : cases) {
    const std::int64_t bytes = payload_bytes(options.format, c.count(), options.num_workers);
    memory.emplace_back(static_cast<std::size_t>(bytes + 7) / 8);
    tasks.push_back(task_of(c, c.gradient.data(), c.scalers.data(), c.clips.data(),
                            reinterpret_cast<std::uint8_t*>(memory.back().data())));
  }
  std::vector<std::int64_t> bytes(tasks.size());
  ternarize(tasks, options, key, bytes, stream);
  Encoded result;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    result.payloads.emplace_back(tasks[i].payload, tasks[i].payload + bytes[i]);
  }
  return result;
}

Encoded on_cuda(std::span<const Case> cases, const TernarizeOptions& options, const DrawKey& key = kKey) {
  Stream stream(Device::cuda());
  std::vector<OnDevice> memory;
  std::vector<TernarizeTask> tasks;
  for (const Case& c : cases) {
    memory.emplace_back(c, payload_bytes(options.format, c.count(), options.num_workers), stream);
    tasks.push_back(memory.back().task);
  }
  std::vector<std::int64_t> bytes(tasks.size());
  ternarize(tasks, options, key, bytes, stream);
  Encoded result;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const std::vector<std::uint64_t> words = to_host<std::uint64_t>(memory[i].payload.span(), stream);
    const auto* begin = reinterpret_cast<const std::uint8_t*>(words.data());
    result.payloads.emplace_back(begin, begin + bytes[i]);
  }
  return result;
}

void expect_same(std::span<const Case> cases, const TernarizeOptions& options, const std::string& what) {
  const Encoded cpu = on_cpu(cases, options);
  const Encoded cuda = on_cuda(cases, options);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    ASSERT_EQ(cuda.payloads[i], cpu.payloads[i]) << to_string(options.format) << ", " << what << ", task " << i;
  }
}

void expect_same_in_all_formats(std::span<const Case> cases, const std::string& what) {
  for (const TernaryFormat format : kFormats) expect_same(cases, {.format = format, .num_workers = 8}, what);
}

TEST_F(CudaTernarize, IsTheCpusAtRaggedLengths) {
  for (const std::int64_t n : {0,  1,  3,    4,    5,    7,    8,    9,    15,   16,   17,    31,    32,    33,   63,
                               64, 65, 2047, 2048, 2049, 4090, 4095, 4096, 4097, 8192, 20479, 20480, 20481, 20495}) {
    expect_same_in_all_formats({{gaussian_case(n, 7, 3.0f)}}, "length " + std::to_string(n));
  }
}

TEST_F(CudaTernarize, PacksLanesOfAnyWidth) {
  // 1, 2, 3, 7, 8, 16383 workers: 2 to 15 bits, 32 to 4 lanes per word.
  for (const int num_workers : {1, 2, 3, 7, 8, 100, 16383}) {
    expect_same({{gaussian_case(70001, 8, 2.0f)}}, {.format = TernaryFormat::kLanes, .num_workers = num_workers},
                std::to_string(num_workers) + " workers");
  }
}

TEST_F(CudaTernarize, DoesNotDependOnTheAlignment) {
  for (std::size_t start = 1; start < 8; ++start) {
    Case c = gaussian_case(9001, 9, 3.0f);
    c.misalignment = start;
    expect_same_in_all_formats({{c}}, "start " + std::to_string(start));
  }
}

TEST_F(CudaTernarize, TakesSlicesOfManyTensorsAndWorkersAtOnce) {
  std::vector<Case> cases;
  for (std::uint32_t worker = 0; worker < 3; ++worker) {
    for (const std::int64_t n : {20, 0, 300, 9000, 4096, 45000}) {
      Case c = gaussian_case(n, 20 + worker, 2.5f);
      c.worker = worker * 5;
      c.first = n == 9000 ? 3 * kChunkElements : 0;
      c.draw_offset = n * 64;
      cases.push_back(c);
    }
  }
  expect_same_in_all_formats(cases, "many");
}

TEST_F(CudaTernarize, TakesTheScalerOfEachBlock) {
  std::mt19937_64 random(5);
  for (const std::int64_t block : {64, 128, 192, 4096, 4160, 8192, 32768}) {
    for (const std::int64_t first : {std::int64_t{0}, 5 * kChunkElements}) {
      Case c = gaussian_case(25003, 11, 0);
      c.first = first;
      c.block_elements = block;
      c.scalers.clear();
      for (std::int64_t i = 0; i < num_blocks(first, c.count(), block); ++i) {
        const float choices[] = {3.0f, 1.0f, 0.5f, 0.0f, std::numeric_limits<float>::quiet_NaN(), 1e-30f};
        c.scalers.push_back(choices[random() % 6]);
        c.clips.push_back(choices[random() % 2]);
      }
      expect_same_in_all_formats({{c}}, "blocks of " + std::to_string(block));
    }
  }
}

TEST_F(CudaTernarize, ClipsAndSaturates) {
  Case c = gaussian_case(9000, 12, 1.5f);
  c.clips = {0.7f};
  expect_same_in_all_formats({{c}}, "local clip");
  c.clips.clear();
  c.scalers = {0.01f};  // nearly all saturate
  expect_same_in_all_formats({{c}}, "saturated");
}

TEST_F(CudaTernarize, ResolvesTiesLikeTheCpu) {
  // 2^18 equal elements at and next to multiples of 1/65536, which often tie with draws.
  for (const float value :
       {0x1p-16f, 0x1.8p-16f, 0.5f, 0x1.00001p-1f, 1.0f, 0x1.fffffep-1f, 0x1.fffep-1f, -0x1.4p-15f}) {
    Case c;
    c.gradient.assign(std::size_t{1} << 17, value);
    c.scalers = {1.0f};
    expect_same({{c}}, {.format = TernaryFormat::kT2, .num_workers = 1}, "value " + std::to_string(value));
  }
}

TEST_F(CudaTernarize, TakesHostileValues) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const float huge = std::numeric_limits<float>::max();
  for (const float scaler :
       {0.0f, tiny, kMinScaler, 1e-20f, 1.0f, 1e20f, kMaxScaler, std::numeric_limits<float>::quiet_NaN()}) {
    Case c;
    for (const float value : {0.0f, -0.0f, tiny, -tiny, kMinScaler, 1e-20f, 1.0f, -1.0f, 1e20f, huge, -huge}) {
      c.gradient.insert(c.gradient.end(), 400, value);
    }
    c.scalers = {scaler};
    expect_same_in_all_formats({{c}}, "scaler " + std::to_string(scaler));
  }
  Case nonfinite = gaussian_case(5000, 13, std::numeric_limits<float>::quiet_NaN());
  nonfinite.gradient[77] = std::numeric_limits<float>::quiet_NaN();
  nonfinite.gradient[78] = std::numeric_limits<float>::infinity();
  expect_same_in_all_formats({{nonfinite}}, "not finite");
}

TEST_F(CudaTernarize, DrawsBeyondTheLowWordOfTheBlockIndex) {
  Case c = gaussian_case(9000, 14, 2.0f);
  c.draw_offset = (std::int64_t{1} << 35) - 64;  // block index 2^32 - 8
  expect_same_in_all_formats({{c}}, "draw offset");
}

TEST_F(CudaTernarize, TakesTheStepFromTheDevice) {
  const Case c = gaussian_case(9000, 15, 2.0f);
  Stream stream(Device::cuda());
  const TernarizeOptions options = {.format = TernaryFormat::kT2, .num_workers = 1};
  OnDevice memory(c, payload_bytes(options.format, c.count(), 1), stream);
  Ternarizer ternarizer(Device::cuda());
  for (const std::uint64_t step : {std::uint64_t{1}, std::uint64_t{0xff'00000007u}}) {
    const Buffer<std::uint64_t> on_device = to_device<std::uint64_t>(std::vector<std::uint64_t>{step}, stream);
    std::int64_t bytes = 0;
    ternarizer.run({&memory.task, 1}, options, kKey, {&bytes, 1}, stream, on_device.data());
    const std::vector<std::uint64_t> words = to_host<std::uint64_t>(memory.payload.span(), stream);
    DrawKey key = kKey;
    key.step = step;
    const Encoded expected = on_cpu({&c, 1}, options, key);
    const auto* begin = reinterpret_cast<const std::uint8_t*>(words.data());
    EXPECT_EQ(std::vector<std::uint8_t>(begin, begin + bytes), expected.payloads[0]) << step;
  }
}

TEST_F(CudaTernarize, RefusesWhatItCannotHonour) {
  Stream cpu(Device::cpu(), 1);
  Ternarizer ternarizer(Device::cuda());
  EXPECT_THROW(ternarizer.run({}, {}, kKey, {}, cpu), InvalidArgument);
  const std::uint64_t step = 0;
  EXPECT_THROW(Ternarizer().run({}, {}, kKey, {}, cpu, &step), InvalidArgument);
  Stream cuda(Device::cuda());
  EXPECT_THROW(ternarizer.run({}, {.format = TernaryFormat::kTrans}, kKey, {}, cuda), NotSupported);
}

}  // namespace
}  // namespace terngrad::cuda_ternarize_test

// Randomly drawn elements on a GPU against the CPU backend, byte for byte.
#include "kernels/sparse/drawn_payload.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/runtime/captured_graph.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/bfloat16.h"
#include "support/bits.h"
#include "support/codes/drawn_cases.h"
#include "support/cuda_device.h"
#include "support/guarded_array.h"

namespace terngrad::cuda_drawn_payload_test {
namespace {

using testing::DrawnCase;
using testing::GuardedArray;
using CudaDrawnPayload = testing::CudaTest;
using Bytes = std::vector<std::uint8_t>;

struct Uploaded {
  std::vector<GuardedArray<float>> values;
  std::vector<Buffer<float>> flags;
  std::vector<GuardedArray<std::uint64_t>> payloads;
  std::vector<DrawnEncodeTask> tasks;

  Uploaded(const std::vector<DrawnCase>& cases, Stream& stream) {
    for (const DrawnCase& c : cases) {
      const float flag = c.flag();
      values.emplace_back(c.values, values.size() % 4, stream);
      flags.push_back(testing::to_device<float>({&flag, 1}, stream));
      const auto words = static_cast<std::size_t>((drawn_bytes(c.shape) + 7) / 8);
      payloads.emplace_back(std::vector<std::uint64_t>(words, ~std::uint64_t{0}), 0, stream);
    }
    for (std::size_t i = 0; i < cases.size(); ++i) {
      tasks.push_back({.values = values[i].data(),
                       .flag = flags[i].data(),
                       .shape = cases[i].shape,
                       .draw_offset = cases[i].draw_offset,
                       .payload = reinterpret_cast<std::uint8_t*>(payloads[i].data())});
    }
  }

  Bytes payload(std::size_t i) {
    const std::vector<std::uint64_t> words = payloads[i].values();
    const auto* const first = reinterpret_cast<const std::uint8_t*>(words.data());
    return {first, first + drawn_bytes(tasks[i].shape)};
  }
};

TEST_F(CudaDrawnPayload, IsTheCpus) {
  Stream stream(Device::cuda());
  for (const SparseValues values : {SparseValues::kFloat32, SparseValues::kBfloat16}) {
    const std::vector<DrawnCase> cases = testing::drawn_cases(values);
    for (const float factor : {1.0f, 100.0f}) {
      Uploaded there(cases, stream);
      DrawnEncoder(Device::cuda()).run(there.tasks, factor, testing::kDrawnSeed, testing::kDrawnStep, stream);
      for (std::size_t i = 0; i < cases.size(); ++i) {
        ASSERT_EQ(there.payload(i), testing::drawn_on_cpu(cases[i], factor)) << cases[i].text();
      }
    }
  }
}

TEST_F(CudaDrawnPayload, TakesElementsOf16Bits) {
  Stream stream(Device::cuda());
  DrawnCase c{testing::gaussian(9001, 6), {0, 9001, 3, SparseValues::kFloat32}};
  std::vector<std::uint16_t> narrow;
  for (float& value : c.values) {
    narrow.push_back(to_bfloat16(value));
    value = from_bfloat16(narrow.back());
  }
  const Buffer<std::uint16_t> values = testing::to_device<std::uint16_t>(narrow, stream);
  Uploaded there({c}, stream);
  there.tasks[0].values = values.data();
  there.tasks[0].type = ElementType::kBfloat16;
  DrawnEncoder(Device::cuda()).run(there.tasks, 1, testing::kDrawnSeed, testing::kDrawnStep, stream);
  EXPECT_EQ(there.payload(0), testing::drawn_on_cpu(c));
}

TEST_F(CudaDrawnPayload, AddsAsTheCpuDoesWithStepsOfAGraph) {
  constexpr std::size_t kWorkers = 3;
  for (const SparseValues values : {SparseValues::kFloat32, SparseValues::kBfloat16}) {
    Stream stream(Device::cuda());
    std::vector<DrawnCase> cases;
    for (const DrawnCase& c : testing::drawn_cases(values)) {
      for (std::size_t worker = 0; worker < kWorkers; ++worker) {
        cases.push_back(c);
        if (worker > 0) cases.back().values = testing::gaussian(c.values.size(), worker);
        cases.back().is_finite = c.is_finite || worker > 0;
      }
    }
    Uploaded there(cases, stream);
    Buffer<std::uint64_t> step = testing::to_device<std::uint64_t>(std::vector<std::uint64_t>{0}, stream);
    std::vector<const std::uint8_t*> payloads;
    for (const DrawnEncodeTask& task : there.tasks) payloads.push_back(task.payload);
    std::vector<GuardedArray<float>> sums;
    std::vector<DrawnSumTask> tasks;
    for (std::size_t i = 0; i < cases.size(); i += kWorkers) {
      sums.emplace_back(std::vector<float>(cases[i].values.size(), 7), i % 4, stream);
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      tasks.push_back({.shape = cases[i * kWorkers].shape,
                       .payloads = {payloads.data() + i * kWorkers, kWorkers},
                       .scale = 0.5f,
                       .out = sums[i].data()});
    }
    DrawnEncoder encoder(Device::cuda());
    DrawnSummer summer(Device::cuda());
    const auto work = [&] {
      encoder.run(there.tasks, 1, testing::kDrawnSeed, 0, stream, step.data());
      summer.run(tasks, stream);
    };
    work();
    const CapturedGraph graph(stream, work);
    for (const std::uint64_t number : {testing::kDrawnStep, std::uint64_t{0xff'00000007u}}) {
      copy<std::uint64_t>({&number, 1}, step.span(), stream);
      graph.launch(stream);
      for (std::size_t i = 0; i < sums.size(); ++i) {
        std::vector<Bytes> sent;
        std::vector<const std::uint8_t*> pointers;
        for (std::size_t worker = 0; worker < kWorkers; ++worker) {
          sent.push_back(testing::drawn_on_cpu(cases[i * kWorkers + worker], 1, 1, number));
        }
        for (const Bytes& payload : sent) pointers.push_back(payload.data());
        std::vector<float> expected(sums[i].span().size());
        const DrawnSumTask task{.shape = tasks[i].shape, .payloads = pointers, .scale = 0.5f, .out = expected.data()};
        Stream cpu(Device::cpu(), 1);
        DrawnSummer().run({&task, 1}, cpu);
        ASSERT_EQ(testing::bits_of(sums[i].values()), testing::bits_of(expected)) << cases[i * kWorkers].text();
      }
    }
  }
}

TEST_F(CudaDrawnPayload, RefusesAnotherDevicesStream) {
  Stream cpu(Device::cpu(), 1);
  EXPECT_THROW(DrawnEncoder(Device::cuda()).run({}, 1, 0, 0, cpu), InvalidArgument);
  EXPECT_THROW(DrawnSummer(Device::cuda()).run({}, cpu), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cuda_drawn_payload_test

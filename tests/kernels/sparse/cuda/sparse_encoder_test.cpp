// Sparse encoding on a GPU against the CPU backend, byte for byte.
#include "kernels/sparse/sparse_encoder.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/runtime/captured_graph.h"
#include "kernels/runtime/errors.h"
#include "support/codes/sparse_cases.h"
#include "support/cuda_device.h"
#include "support/guarded_array.h"

namespace terngrad::cuda_sparse_encoder_test {
namespace {

using testing::GuardedArray;
using testing::SparseCase;
using CudaSparseEncoder = testing::CudaTest;

/// Tasks of one call in device memory.
struct Uploaded {
  std::vector<GuardedArray<float>> values;
  std::vector<Buffer<float>> flags;
  std::vector<GuardedArray<std::uint64_t>> payloads;
  std::vector<SparseEncodeTask> tasks;
  std::vector<std::int64_t> bytes;

  /// @param misalignment  of the values, in elements
  Uploaded(const std::vector<SparseCase>& cases, std::size_t misalignment, Stream& stream) {
    for (const SparseCase& c : cases) {
      const float flag = c.flag();
      values.emplace_back(c.values, misalignment, stream);
      flags.push_back(testing::to_device<float>({&flag, 1}, stream));
      const auto words = static_cast<std::size_t>((max_sparse_bytes(c.shape) + 7) / 8);
      payloads.emplace_back(std::vector<std::uint64_t>(words), 0, stream);
    }
    for (std::size_t i = 0; i < cases.size(); ++i) {
      tasks.push_back({.values = values[i].data(),
                       .flag = flags[i].data(),
                       .shape = cases[i].shape,
                       .payload = reinterpret_cast<std::uint8_t*>(payloads[i].data())});
    }
    bytes.resize(cases.size());
  }

  /// The first `length` bytes of a payload.
  std::vector<std::uint8_t> payload(std::size_t i, std::size_t length) {
    const std::vector<std::uint64_t> words = payloads[i].values();
    const auto* const first = reinterpret_cast<const std::uint8_t*>(words.data());
    return {first, first + length};
  }

  void expect_the_cpus(const std::vector<SparseCase>& cases) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const std::vector<std::uint8_t> expected = testing::encoded_on_cpu(cases[i]);
      EXPECT_EQ(bytes[i], max_sparse_bytes(cases[i].shape));
      ASSERT_EQ(payload(i, expected.size()), expected) << cases[i].name << ", block " << cases[i].shape.block_elements;
    }
  }
};

void expect_the_cpus(const std::vector<SparseCase>& cases, std::size_t misalignment = 0) {
  Stream stream(Device::cuda());
  Uploaded there(cases, misalignment, stream);
  SparseEncoder(Device::cuda()).run(there.tasks, there.bytes, stream);
  there.expect_the_cpus(cases);
}

TEST_F(CudaSparseEncoder, WritesTheCpusPayloadsOfSlices) {
  for (const SparseValues sent : {SparseValues::kFloat32, SparseValues::kBfloat16}) {
    expect_the_cpus(testing::sparse_cases(0, sent));
  }
}

TEST_F(CudaSparseEncoder, WritesTheCpusPayloadsOfBlocks) {
  for (const SparseValues sent : {SparseValues::kFloat32, SparseValues::kBfloat16}) {
    for (const std::int64_t block : {256, 4096, 16384}) expect_the_cpus(testing::sparse_cases(block, sent));
  }
}

TEST_F(CudaSparseEncoder, DoesNotDependOnTheAlignment) {
  for (const std::size_t misalignment : {1u, 2u, 3u}) {
    expect_the_cpus({testing::sparse_case("runs", testing::gaussian(9001, 4), SparseFormat::kRuns, 0.02)},
                    misalignment);
    expect_the_cpus({testing::sparse_case("local", testing::gaussian(9001, 4), SparseFormat::kLocal, 0.02, 1024)},
                    misalignment);
  }
}

TEST_F(CudaSparseEncoder, TakesElementsOf16BitsAtAnyPlace) {
  Stream stream(Device::cuda());
  for (const ElementType type : {ElementType::kBfloat16, ElementType::kFloat16}) {
    for (const std::int64_t block : {0, 1024, 8192}) {
      const SparseFormat format = block == 0 ? SparseFormat::kRuns : SparseFormat::kLocal;
      SparseCase widened = testing::sparse_case("16 bits", testing::gaussian(13001, 6), format, 0.05, block);
      std::vector<std::uint16_t> narrow;
      for (float& value : widened.values) {
        const bool is_bf16 = type == ElementType::kBfloat16;
        narrow.push_back(is_bf16 ? to_bfloat16(value) : to_float16(value));
        value = is_bf16 ? from_bfloat16(narrow.back()) : from_float16(narrow.back());
      }
      for (const std::size_t misalignment : {0u, 1u, 2u, 4u}) {
        GuardedArray<std::uint16_t> values(narrow, misalignment, stream);
        Uploaded there({widened}, 0, stream);
        there.tasks[0].values = values.data();
        there.tasks[0].type = type;
        there.tasks[0].flag = nullptr;
        SparseEncoder(Device::cuda()).run(there.tasks, there.bytes, stream);
        there.expect_the_cpus({widened});
      }
    }
  }
}

TEST_F(CudaSparseEncoder, ChoosesInLargeBlocks) {
  std::vector<SparseCase> cases;
  for (const std::int64_t block : {32768, 65536}) {
    cases.push_back(testing::sparse_case("large", testing::gaussian(140000, 9), SparseFormat::kLocal, 0.01, block));
  }
  expect_the_cpus(cases);
}

// Histograms must be reset between calls with more and fewer tensors.
TEST_F(CudaSparseEncoder, TakesOtherTasksThanBefore) {
  Stream stream(Device::cuda());
  SparseEncoder encoder(Device::cuda());
  const std::vector<SparseCase> all = testing::sparse_cases(0, SparseValues::kFloat32);
  for (const std::size_t count : {std::size_t{3}, std::size_t{1}, all.size(), std::size_t{2}}) {
    const std::vector<SparseCase> cases(all.end() - static_cast<std::ptrdiff_t>(count), all.end());
    Uploaded there(cases, 0, stream);
    encoder.run(there.tasks, there.bytes, stream);
    there.expect_the_cpus(cases);
  }
}

TEST_F(CudaSparseEncoder, RunsFromAGraph) {
  Stream stream(Device::cuda());
  for (const std::int64_t block : {0, 512}) {
    const SparseFormat format = block == 0 ? SparseFormat::kRuns : SparseFormat::kLocal;
    std::vector<SparseCase> cases = {testing::sparse_case("one", testing::gaussian(9000, 1), format, 0.01, block),
                                     testing::sparse_case("two", testing::gaussian(500, 2), format, 0.01, block)};
    Uploaded there(cases, 0, stream);
    SparseEncoder encoder(Device::cuda());
    const auto work = [&] { encoder.run(there.tasks, there.bytes, stream); };
    work();
    const CapturedGraph graph(stream, work);
    for (std::uint64_t seed = 3; seed < 6; ++seed) {
      for (std::size_t i = 0; i < cases.size(); ++i) {
        cases[i].values = testing::gaussian(cases[i].values.size(), seed);
        copy<float>(cases[i].values, there.values[i].span(), stream);
      }
      graph.launch(stream);
      there.expect_the_cpus(cases);
    }
  }
}

TEST_F(CudaSparseEncoder, RefusesTasksOfDifferentKinds) {
  Stream stream(Device::cuda());
  Uploaded there({testing::sparse_case("", testing::gaussian(900, 1), SparseFormat::kRuns, 0.01),
                  testing::sparse_case("", testing::gaussian(900, 1), SparseFormat::kLocal, 0.01, 256)},
                 0, stream);
  EXPECT_THROW(SparseEncoder(Device::cuda()).run(there.tasks, there.bytes, stream), InvalidArgument);
  Stream cpu(Device::cpu(), 1);
  EXPECT_THROW(SparseEncoder(Device::cuda()).run({}, {}, cpu), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cuda_sparse_encoder_test

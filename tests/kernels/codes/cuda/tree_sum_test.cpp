// Tree sums on a GPU against the CPU backend, bit for bit.
#include "kernels/codes/tree_sum.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "kernels/runtime/errors.h"
#include "kernels/tensor/slice.h"
#include "support/bits.h"
#include "support/cuda_device.h"
#include "support/tree_leaves.h"

namespace terngrad::cuda_tree_sum_test {
namespace {

using testing::bits_of;
using testing::kGpuLeafFormats;
using testing::to_device;
using testing::to_host;
using testing::TreeLeaves;

constexpr float kUntouched = -99.0f;
constexpr std::size_t kMargin = 8;  // guard elements around out

/// Arguments of one slice, for both backends.
struct Case {
  LeafFormat format = LeafFormat::kFloat32;
  int num_workers = 3;
  std::int64_t count = 0;
  std::int64_t first = 0;
  std::int64_t block_elements = 0;
  std::size_t misalignment = 0;       // out: offset in elements
  std::size_t leaf_misalignment = 0;  // each payload: offset in elements
  std::int64_t columns = 0;           // kSides only

  std::string text() const {
    return to_string(format) + ", " + std::to_string(num_workers) + " workers, " + std::to_string(count) + " from " +
           std::to_string(first) + ", blocks of " + std::to_string(block_elements) + ", out + " +
           std::to_string(misalignment) + ", leaves + " + std::to_string(leaf_misalignment);
  }
};

/// A case's memory on both devices.
class Prepared {
 public:
  Prepared(const Case& c, std::uint64_t seed, Stream& cuda)
      : leaves_(c.format, c.num_workers, c.count, c.first, c.block_elements, seed, c.leaf_misalignment, c.columns),
        case_(c),
        host_workers_(leaves_.host_workers()),
        device_workers_(leaves_.device_workers(cuda)),
        host_out_(static_cast<std::size_t>(c.count) + 2 * kMargin, kUntouched),
        device_out_(to_device<float>(host_out_, cuda)) {}

  MeanTask host_task() { return task(host_workers_, host_out_.data() + case_.misalignment); }
  MeanTask device_task() { return task(device_workers_, device_out_.data() + case_.misalignment); }
  void expect_equal(Stream& cuda) {
    const std::vector<float> found = to_host<float>(device_out_.span(), cuda);
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(bits_of(found[i]), bits_of(host_out_[i])) << case_.text() << ", place " << i;
    }
  }

 private:
  MeanTask task(std::span<const MeanLeaf> workers, float* out) const {
    return {.format = case_.format,
            .workers = workers,
            .first = case_.first,
            .count = case_.count,
            .block_elements = case_.block_elements,
            .scale = 1.0f / static_cast<float>(case_.num_workers),
            .out = out,
            .columns = case_.columns};
  }
  TreeLeaves leaves_;
  Case case_;
  std::vector<MeanLeaf> host_workers_;
  std::vector<MeanLeaf> device_workers_;
  std::vector<float> host_out_;
  Buffer<float> device_out_;
};

class CudaTreeSums : public testing::CudaTest {
 protected:
  void expect_the_cpus(std::span<const Case> cases) {
    Stream cpu(Device::cpu(), 1);
    Stream cuda(Device::cuda());
    std::vector<Prepared> prepared;
    std::vector<MeanTask> host_tasks;
    std::vector<MeanTask> device_tasks;
    for (const Case& c : cases) prepared.emplace_back(c, 1 + 7 * prepared.size(), cuda);
    for (Prepared& p : prepared) {
      host_tasks.push_back(p.host_task());
      device_tasks.push_back(p.device_task());
    }
    TreeSummer on_cpu;
    TreeSummer on_cuda(Device::cuda());
    on_cpu.run(host_tasks, cpu);
    on_cuda.run(device_tasks, cuda);
    for (Prepared& p : prepared) p.expect_equal(cuda);
  }
  void expect_the_cpus(const Case& c) { expect_the_cpus({&c, 1}); }
  /// @param task  without workers and out, which are set here
  void expect_the_cpus(TreeLeaves& leaves, MeanTask task) {
    Stream cpu(Device::cpu(), 1);
    Stream cuda(Device::cuda());
    const std::vector<MeanLeaf> host_workers = leaves.host_workers();
    const std::vector<MeanLeaf> device_workers = leaves.device_workers(cuda);
    std::vector<float> expected(static_cast<std::size_t>(task.count));
    Buffer<float> found(task.count, Device::cuda());
    task.workers = host_workers;
    task.out = expected.data();
    TreeSummer().run({&task, 1}, cpu);
    task.workers = device_workers;
    task.out = found.data();
    TreeSummer summer(Device::cuda());
    summer.run({&task, 1}, cuda);
    EXPECT_EQ(bits_of(to_host<float>(found.span(), cuda)), bits_of(expected));
  }
};

TEST_F(CudaTreeSums, AreTheCpusAtRaggedLengths) {
  for (const LeafFormat format : kGpuLeafFormats) {
    for (const std::int64_t n : {0,  1,    2,    3,    4,    5,    15,   16,   17,   31,   32,   33,  63,
                                 65, 1023, 1024, 1025, 2047, 3073, 4095, 4096, 4097, 5119, 5121, 8193}) {
      expect_the_cpus(Case{.format = format, .count = n});
    }
  }
}

TEST_F(CudaTreeSums, FollowTheTreeOfEveryNumberOfWorkers) {
  for (const LeafFormat format : kGpuLeafFormats) {
    for (int workers = 1; workers <= 33; ++workers) {
      expect_the_cpus(Case{.format = format, .num_workers = workers, .count = 150});
    }
    for (const int workers : {63, 64, 65, 119, 127, 128, 129, 300}) {
      expect_the_cpus(Case{.format = format, .num_workers = workers, .count = 70});
    }
  }
}

TEST_F(CudaTreeSums, HoldAsManyWorkersAsTheyPromise) {
  // Uses all levels of the tree. All workers share one leaf; tree sums of equal numbers are exact here.
  Stream cuda(Device::cuda());
  const std::vector<float> values = {1.0f, -0.5f, 3.0f};
  const Buffer<float> on_device = to_device<float>(values, cuda);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(on_device.data());
  std::vector<MeanLeaf> workers(kMaxTreeWorkers, MeanLeaf{.payload = {bytes, 12}});
  Buffer<float> out(3, Device::cuda());
  TreeSummer summer(Device::cuda());
  MeanTask task{.workers = workers, .count = 3, .scale = 1.0f, .out = out.data()};
  summer.run({&task, 1}, cuda);
  const auto n = static_cast<float>(kMaxTreeWorkers);
  EXPECT_EQ(to_host<float>(out.span(), cuda), (std::vector<float>{n, -0.5f * n, 3.0f * n}));
  workers.push_back(workers[0]);
  task.workers = workers;
  EXPECT_THROW(summer.run({&task, 1}, cuda), InvalidArgument);
}

TEST_F(CudaTreeSums, TakeAnyAlignment) {
  for (const LeafFormat format : kGpuLeafFormats) {
    const bool is_float = format == LeafFormat::kFloat32 || format == LeafFormat::kBfloat16;
    for (std::size_t start = 0; start < kMargin; ++start) {
      expect_the_cpus(Case{.format = format, .count = 1024 + 35, .misalignment = start});
      if (!is_float) continue;
      expect_the_cpus(Case{.format = format, .count = 1024 + 35, .leaf_misalignment = start});
      expect_the_cpus(
          Case{.format = format, .num_workers = 9, .count = 1024 + 35, .misalignment = 3, .leaf_misalignment = start});
    }
  }
}

TEST_F(CudaTreeSums, TakeAScalerPerBlock) {
  for (const LeafFormat format : testing::kCodeLeafFormats) {
    for (const std::int64_t block : {64, 128, 192, 4032, 4096, 4160, 8192, 10048, 1 << 20}) {
      for (const std::int64_t first : {0, 4096, 12288}) {
        expect_the_cpus(Case{.format = format, .count = 9001, .first = first, .block_elements = block});
      }
    }
    for (const std::int64_t count : {1, 63, 64, 65, 4095}) {
      expect_the_cpus(Case{.format = format, .num_workers = 10, .count = count, .block_elements = 64});
    }
  }
}

TEST_F(CudaTreeSums, TakeTheScalersOfColumns) {
  for (const std::int64_t columns : {1, 2, 3, 7, 64, 5000}) {
    for (const std::int64_t first : {0, 4096}) {
      for (const int workers : {1, 3, 20}) {
        expect_the_cpus(Case{
            .format = LeafFormat::kSides, .num_workers = workers, .count = 2100, .first = first, .columns = columns});
      }
    }
  }
}

TEST_F(CudaTreeSums, TakeManyTasksOfAllFormatsAtOnce) {
  std::vector<Case> cases;
  for (const int workers : {2, 20, 130}) {
    for (const std::int64_t count : {70, 0, 4097, 1}) {
      if (workers == 130 && count > 1000) continue;
      for (const LeafFormat format : kGpuLeafFormats) {
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

TEST_F(CudaTreeSums, PassOnNonFiniteValuesAndZeros) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float tiny = std::numeric_limits<float>::denorm_min();
  // Columns of three workers, without infinity - infinity, whose NaN differs between CPUs.
  const std::vector<std::vector<float>> rows = {{nan, infinity, -infinity, -0.0f, tiny, 3e38f, 0.0f, 1.0f, nan},
                                                {1.0f, 2.0f, -3.0f, -0.0f, -tiny, 3e38f, -0.0f, nan, nan},
                                                {0.0f, infinity, 4.0f, -0.0f, tiny, -3e38f, 0.0f, 2.0f, infinity}};
  Stream cpu(Device::cpu(), 1);
  Stream cuda(Device::cuda());
  std::vector<Buffer<float>> on_device;
  std::vector<MeanLeaf> host_workers;
  std::vector<MeanLeaf> device_workers;
  const auto leaf = [](std::span<const float> values) {
    return MeanLeaf{.payload = {reinterpret_cast<const std::uint8_t*>(values.data()), values.size_bytes()}};
  };
  for (const std::vector<float>& row : rows) {
    on_device.push_back(to_device<float>(row, cuda));
    host_workers.push_back(leaf(row));
    device_workers.push_back(leaf(on_device.back().span()));
  }
  std::vector<float> expected(9);
  Buffer<float> found(9, Device::cuda());
  const MeanTask host_task{.workers = host_workers, .count = 9, .scale = 0.25f, .out = expected.data()};
  const MeanTask device_task{.workers = device_workers, .count = 9, .scale = 0.25f, .out = found.data()};
  TreeSummer().run({&host_task, 1}, cpu);
  TreeSummer summer(Device::cuda());
  summer.run({&device_task, 1}, cuda);
  EXPECT_EQ(bits_of(to_host<float>(found.span(), cuda)), bits_of(expected));
}

TEST_F(CudaTreeSums, TakeHostileScalers) {
  constexpr std::int64_t kCount = kChunkElements + 1100;  // a complete chunk and a part of one
  for (const LeafFormat format : testing::kCodeLeafFormats) {
    for (const float scaler : {std::numeric_limits<float>::quiet_NaN(), 0.0f, -0.0f, 0x1p-126f, 0x1p-149f, 0x1p126f}) {
      // One worker with scaler zero: all elements are zeros of both signs.
      for (const int workers : {1, 5}) {
        TreeLeaves leaves(format, workers, kCount, 0, 0, 3);
        leaves.scalers()[static_cast<std::size_t>(workers) / 2][0] = scaler;
        SCOPED_TRACE(to_string(format) + ", " + std::to_string(scaler) + ", " + std::to_string(workers) + " workers");
        expect_the_cpus(leaves, {.format = format, .count = kCount, .scale = 0.2f});
      }
    }
  }
}

TEST_F(CudaTreeSums, TakeAScalerForEachSign) {
  constexpr std::int64_t kCount = kChunkElements + 1100;
  for (const LeafFormat format : {LeafFormat::kT2, LeafFormat::kT5, LeafFormat::kTMask}) {
    for (const std::int64_t block : {0, 64, 4096}) {
      for (const int workers : {1, 8, 11, 20}) {
        TreeLeaves leaves(format, workers, kCount, 0, 64, 5);
        for (std::vector<float>& scalers : leaves.scalers()) {
          scalers.resize(2 * (kCount / 64 + 1));
          for (std::size_t i = 0; i < scalers.size(); ++i) scalers[i] = 0.3f + 0.013f * static_cast<float>(i);
        }
        SCOPED_TRACE(to_string(format) + ", blocks of " + std::to_string(block) + ", " + std::to_string(workers) +
                     " workers");
        MeanTask task{.format = format, .count = kCount, .block_elements = block, .scale = 0.3f};
        task.two_scalers = true;
        expect_the_cpus(leaves, task);
      }
    }
  }
}

TEST_F(CudaTreeSums, OfASummerFollowItsTasks) {
  Stream cpu(Device::cpu(), 1);
  Stream cuda(Device::cuda());
  TreeSummer on_cpu;
  TreeSummer on_cuda(Device::cuda());
  // Fewer, more and the same tasks again: the tables on the GPU must be updated.
  for (const std::int64_t count : {5000, 100, 20000, 20000, 0, 4096}) {
    for (const int workers : {3, 20}) {
      Prepared prepared({.num_workers = workers, .count = count}, static_cast<std::uint64_t>(count), cuda);
      const MeanTask host_task = prepared.host_task();
      const MeanTask device_task = prepared.device_task();
      on_cpu.run({&host_task, 1}, cpu);
      on_cuda.run({&device_task, 1}, cuda);
      on_cuda.run({&device_task, 1}, cuda);
      prepared.expect_equal(cuda);
    }
  }
  on_cuda.run({}, cuda);
}

TEST_F(CudaTreeSums, RefuseAnotherDevicesStream) {
  Stream cpu(Device::cpu(), 1);
  Stream cuda(Device::cuda());
  EXPECT_THROW(TreeSummer(Device::cuda()).run({}, cpu), InvalidArgument);
  EXPECT_THROW(TreeSummer().run({}, cuda), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cuda_tree_sum_test

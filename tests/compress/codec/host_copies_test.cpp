// A codec without kernels on gradients in GPU memory: bit-identical to the same codec on the CPU.
#include "compress/codec/host_copies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "compress/codec/memory_update.h"
#include "kernels/runtime/captured_graph.h"
#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/bytes_codec.h"
#include "support/codec_messages.h"
#include "support/device_tensors.h"
#include "support/narrow_gradients.h"

namespace terngrad::host_copies_test {
namespace {

using testing::bits_of;
using testing::Bytes;
using testing::DeviceTensors;
using testing::small_layout;
using testing::Tensors;
using testing::to_device;
using testing::to_host;
using CudaHostCopies = testing::CudaTest;
using CudaHostCoder = testing::CudaTest;

constexpr int kWorkers = 3;

std::vector<Tensors> gradients_of_workers(const Layout& layout) {
  std::vector<Tensors> workers;
  for (std::uint64_t w = 0; w < kWorkers; ++w) workers.push_back(testing::gaussian_tensors(layout, 30 + w));
  return workers;
}

TEST_F(CudaHostCopies, AreOfTheSegmentsAskedForOfAnyType) {
  Layout layout;
  layout.add("a", {33});
  layout.add("other", {5});
  layout.add("c", {4097});
  Stream stream(Device::cuda());
  HostCopies copies({.layout = layout, .device = Device::cuda()}, {0, 2});
  for (const ElementType type : testing::kNarrowTypes) {
    const auto count = static_cast<std::size_t>(layout.flat_elements());
    const testing::NarrowGradient first = testing::narrow_gaussian(type, count, 1);
    const testing::NarrowGradient second = testing::narrow_gaussian(type, count, 2);
    Buffer<std::uint16_t> buffers[] = {to_device<std::uint16_t>(first.elements, stream),
                                       to_device<std::uint16_t>(second.elements, stream)};
    const std::vector<TensorTable> tables = {{layout, type, buffers[0].data()}, {layout, type, buffers[1].data()}};
    const std::span<const TensorTable> copied = copies.copy_gradients(tables, stream);
    ASSERT_EQ(copied.size(), 2u);
    for (std::size_t w = 0; w < 2; ++w) {
      EXPECT_EQ(copied[w].type(), type);
      EXPECT_EQ(copied[w].data(1), nullptr);
      for (const int t : {0, 2}) {
        const Segment& segment = layout.segment(t);
        const std::uint16_t* expected = (w == 0 ? first : second).elements.data() + segment.offset;
        EXPECT_EQ(std::memcmp(copied[w].data(t), expected, 2 * static_cast<std::size_t>(segment.num_elements)), 0);
      }
    }
  }
}

TEST_F(CudaHostCopies, KnowTheStepWhereverItIs) {
  Stream stream(Device::cuda());
  const Buffer<std::uint64_t> step = to_device<std::uint64_t>(std::vector<std::uint64_t>{77}, stream);
  EXPECT_EQ(HostCopies::number_of({5, nullptr}, stream), 5u);
  EXPECT_EQ(HostCopies::number_of({5, step.data()}, stream), 77u);
}

/// Tensors of three workers with one codec, in the memory of one device.
struct Exchange {
  Layout layout = small_layout();
  Stream stream;
  std::vector<DeviceTensors> gradients, kept;
  std::vector<TensorTable> tables, kept_tables;
  DeviceTensors mean;
  std::vector<Buffer<std::uint64_t>> payloads;
  PayloadSlots slots;
  Buffer<NonfiniteReport> report;
  std::unique_ptr<Coder> coder;

  Exchange(const Device& device, const Codec& codec, const std::vector<Tensors>& workers)
      : stream(device), mean(layout, testing::blank_tensors(layout), stream), report(1, device) {
    for (const Tensors& worker : workers) gradients.emplace_back(layout, worker, stream);
    for (const DeviceTensors& worker : gradients) tables.push_back(worker.table);
    for (int w = 0; w < kWorkers; ++w) kept.emplace_back(layout, testing::blank_tensors(layout), stream);
    for (const DeviceTensors& worker : kept) kept_tables.push_back(worker.table);
    slots.encoded = {{0, 0, 4096}, {0, 4096, 4904}, {2, 0, 7}};
    slots.aggregated = slots.encoded;
    slots.num_payloads = kWorkers;
    for (const Slice& slice : slots.encoded) {
      const std::int64_t room = codec.max_payload_bytes(slice, PayloadForm::kNatural);
      for (int w = 0; w < kWorkers; ++w) {
        payloads.emplace_back((room + 7) / 8, device);
        slots.outgoing.push_back(reinterpret_cast<std::uint8_t*>(payloads.back().data()));
        slots.incoming_bytes.push_back(room);
      }
    }
    slots.incoming.assign(slots.outgoing.begin(), slots.outgoing.end());
    slots.outgoing_bytes.resize(slots.outgoing.size());
    coder = codec.make_coder({.layout = layout,
                              .workers = {.num_workers = kWorkers, .num_local_workers = kWorkers},
                              .seed = 9,
                              .drops_nonfinite_steps = false,
                              .device = device},
                             {0, 2}, slots);
  }

  void run(const DeviceStep& step) {
    fill_zero(report.span(), stream);
    coder->measure(tables, step, stream);
    coder->combine_scalers(report.data(), nullptr, nullptr, stream);
    coder->encode(tables, step, stream);
    coder->aggregate(mean.table, AggregateUnit::kMean, stream);
    coder->update_memory({MemoryUpdateKind::kUnsent}, tables, kept_tables, nullptr, stream);
  }

  /// Bits of all results.
  std::vector<std::vector<std::uint32_t>> outcome() {
    std::vector<std::vector<std::uint32_t>> all;
    for (int w = 0; w < kWorkers; ++w) {
      all.push_back(bits_of(to_host<float>(coder->local_row(w), stream)));
      all.push_back(bits_of(to_host<float>(coder->sent_scalers(w), stream)));
    }
    for (std::size_t i = 0; i < payloads.size(); ++i) {
      const std::span<const std::uint8_t> payload(slots.outgoing[i], static_cast<std::size_t>(slots.outgoing_bytes[i]));
      const std::vector<std::uint8_t> bytes = to_host<std::uint8_t>(payload, stream);
      all.emplace_back(bytes.begin(), bytes.end());
    }
    for (const std::vector<float>& tensor : mean.read(layout, stream).values) all.push_back(bits_of(tensor));
    for (const DeviceTensors& worker : kept) {
      for (const std::vector<float>& tensor : worker.read(layout, stream).values) all.push_back(bits_of(tensor));
    }
    all.push_back({static_cast<std::uint32_t>(to_host<NonfiniteReport>(report.span(), stream)[0].count)});
    return all;
  }
};

TEST_F(CudaHostCoder, GivesTheCpusBits) {
  for (const bool draws : {false, true}) {
    const Bytes codec({.draws = draws});
    std::vector<Tensors> workers = gradients_of_workers(small_layout());
    for (const bool is_finite : {true, false}) {
      if (!is_finite) workers[1].values[0][5000] = std::numeric_limits<float>::quiet_NaN();
      Exchange cpu(Device::cpu(), codec, workers);
      Exchange cuda(Device::cuda(), codec, workers);
      EXPECT_FALSE(cpu.coder->goes_through_host());
      EXPECT_TRUE(cuda.coder->goes_through_host());
      cpu.run({4, nullptr});
      cuda.run({4, nullptr});
      EXPECT_EQ(cuda.outcome(), cpu.outcome());
      // Another step with new gradients in the same buffers; the step number is on the device.
      const std::vector<Tensors> next = gradients_of_workers(small_layout());
      for (std::size_t w = 0; w < kWorkers; ++w) {
        cpu.gradients[w].write(next[kWorkers - 1 - w], cpu.stream);
        cuda.gradients[w].write(next[kWorkers - 1 - w], cuda.stream);
      }
      const Buffer<std::uint64_t> step = to_device<std::uint64_t>(std::vector<std::uint64_t>{5}, cuda.stream);
      const auto before = cuda.outcome();
      cpu.run({5, nullptr});
      cuda.run({0, step.data()});
      EXPECT_EQ(cuda.outcome(), cpu.outcome());
      EXPECT_NE(cuda.outcome(), before);
    }
  }
}

TEST_F(CudaHostCoder, RefusesToBeCaptured) {
  const Bytes codec;
  Exchange cuda(Device::cuda(), codec, gradients_of_workers(small_layout()));
  cuda.run({4, nullptr});
  const auto before = cuda.outcome();
  const auto captures = [&](const auto& submit) { CapturedGraph(cuda.stream, submit); };
  EXPECT_THROW(captures([&] { cuda.coder->measure(cuda.tables, {4, nullptr}, cuda.stream); }), InvalidArgument);
  EXPECT_THROW(captures([&] { cuda.coder->encode(cuda.tables, {4, nullptr}, cuda.stream); }), InvalidArgument);
  EXPECT_THROW(captures([&] { cuda.coder->aggregate(cuda.mean.table, AggregateUnit::kMean, cuda.stream); }),
               InvalidArgument);
  EXPECT_FALSE(is_capturing(cuda.stream));
  cuda.run({4, nullptr});
  EXPECT_EQ(cuda.outcome(), before);
}

TEST_F(CudaHostCoder, RefusesPayloadsWithoutAFixedSize) {
  EXPECT_THROW(Exchange(Device::cuda(), Bytes({.fixed_size = false}), gradients_of_workers(small_layout())),
               NotSupported);
  EXPECT_NO_THROW(Exchange(Device::cpu(), Bytes({.fixed_size = false}), gradients_of_workers(small_layout())));
}

}  // namespace
}  // namespace terngrad::host_copies_test

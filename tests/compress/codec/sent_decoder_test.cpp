// Error feedback memories on a GPU against those on the CPU, bit for bit, for every codec that kernels decode.
#include "compress/codec/sent_decoder.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "compress/exchange/compressed_all_reduce.h"
#include "support/cuda_device.h"
#include "support/device_tensors.h"
#include "support/exchanges.h"

namespace terngrad::sent_decoder_test {
namespace {

using testing::blank_tensors;
using testing::DeviceTensors;
using testing::exchange_in;
using testing::Tensors;
using CudaSentDecoder = testing::CudaTest;

constexpr int kWorkers = 3;
const Buckets kBuckets = {{6, 5}, {4, 2, 3}, {0, 1}};

/// Runs several steps on both devices; the last but one is dropped.
void expect_same_memory(const CompressedAllReduceOptions& options, const char* spec) {
  const Layout layout = testing::mixed_layout();
  CompressedAllReduce cpu(layout, make_worker_group(kWorkers, make_self_communicator()), options, parse_memory(spec));
  Stream stream(Device::cuda());
  const WorkerRange workers{.num_workers = kWorkers, .first_local_worker = 0, .num_local_workers = kWorkers};
  CompressedAllReduce cuda(layout, {workers, make_self_device_communicator()}, options, stream, parse_memory(spec));
  const std::string what = testing::options_text(options) + ", " + spec;
  for (std::uint64_t step = 0; step < 4; ++step) {
    std::vector<Tensors> gradients = testing::worker_gradients(layout, kWorkers, step + 1);
    if (step == 2) gradients[1].values[3][77] = std::numeric_limits<float>::infinity();
    Tensors expected = blank_tensors(layout);
    exchange_in(kBuckets, cpu, testing::tables(gradients, 0, kWorkers), expected.table, step);
    std::vector<DeviceTensors> there;
    std::vector<TensorTable> tables;
    for (const Tensors& worker : gradients) {
      there.emplace_back(layout, worker, stream);
      tables.push_back(there.back().table);
    }
    const DeviceTensors mean(layout, blank_tensors(layout), stream);
    exchange_in(kBuckets, cuda, tables, mean.table, step);
    const bool is_dropped = step == 2 && options.on_nonfinite == OnNonfinite::kSkip;
    if (!is_dropped) {
      ASSERT_TRUE(testing::same_bits(expected.values, mean.read(layout, stream))) << what << ", step " << step;
    }
    for (int worker = 0; worker < kWorkers; ++worker) {
      const std::span<const float> state = cpu.memory()->state(worker);
      ASSERT_EQ(testing::bits_of(testing::to_host<float>(cuda.memory()->state(worker), stream)),
                testing::bits_of(state))
          << what << ", step " << step << ", worker " << worker;
    }
  }
}

TEST_F(CudaSentDecoder, KeepsWhatTheCpuKeeps) {
  for (const char* codec :
       {"ternary:rounding=nearest,clip_factor=1.22", "ternary:format=t5", "ternary:sharing=none,scope=block,block=128",
        "ternary:levels=asymmetric", "ternary:format=tmask,sharing=mean", "bf16", "qsgd:bits=4,block=128",
        "qsgd:bits=8,sharing=max", "natural", "sign:block=128", "onebit", "onebit:group=block", "fp8",
        "qsgd:rotate=1024", "ternary:format=tmask,rotate=64", "sign:scale=drive,rotate=4096", "eden",
        "eden:levels=8,rotate=64"}) {
    CompressedAllReduceOptions options = testing::options_of(ExchangeAlgorithm::kAllGather);
    options.on_nonfinite = OnNonfinite::kSkip;
    options.codecs.codec = codec;
    expect_same_memory(options, "ef");
    expect_same_memory(options, "loco:reset=2");
  }
}

TEST_F(CudaSentDecoder, KeepsWhatTheCpuKeepsOfSparseMessages) {
  for (const char* codec : {"topk:density=0.1", "topk:scope=block,block=256,values=bf16", "randomk:density=0.1"}) {
    for (const char* memory : {"ef", "dgc", "dgc:momentum=0.5,nesterov=true"}) {
      for (const OnNonfinite policy : {OnNonfinite::kSkip, OnNonfinite::kZero}) {
        CompressedAllReduceOptions options = testing::options_of(ExchangeAlgorithm::kAllGather);
        options.on_nonfinite = policy;
        options.codecs.codec = codec;
        options.codecs.rules = {{"plain", "fp32"}};
        expect_same_memory(options, memory);
      }
    }
  }
}

TEST_F(CudaSentDecoder, AddsWhatTheCpuAdds) {
  for (const char* codec : {"ternary:format=tmask,clip_factor=1.5", "qsgd:bits=8,sharing=max", "topk:density=0.1",
                            "eden:levels=8,rotate=64", "natural"}) {
    for (const char* memory : {"ef21", "ef21:decay=0.75"}) {
      CompressedAllReduceOptions options = testing::options_of(ExchangeAlgorithm::kAllGather);
      options.on_nonfinite = OnNonfinite::kSkip;
      options.codecs.codec = codec;
      expect_same_memory(options, memory);
    }
  }
}

TEST_F(CudaSentDecoder, DecodesOneWorkersLanesAndShards) {
  for (const ExchangeAlgorithm algorithm : {ExchangeAlgorithm::kIntegerSum, ExchangeAlgorithm::kScatterReduce}) {
    for (const char* codec : {"ternary:clip_factor=2.5", "qsgd:bits=4,sharing=max,block=64", "thc"}) {
      CompressedAllReduceOptions options = testing::options_of(algorithm);
      options.on_nonfinite = OnNonfinite::kSkip;
      options.codecs.codec = codec;
      expect_same_memory(options, "ef:decay=0.75");
    }
  }
}

TEST_F(CudaSentDecoder, TensorsThatAreNotFiniteKeepTheirState) {
  for (const char* memory : {"ef", "momentum", "loco"}) {
    CompressedAllReduceOptions options = testing::options_of(ExchangeAlgorithm::kAllGather);
    options.on_nonfinite = OnNonfinite::kZero;
    expect_same_memory(options, memory);
  }
}

}  // namespace
}  // namespace terngrad::sent_decoder_test

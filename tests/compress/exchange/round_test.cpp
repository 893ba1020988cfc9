// Decoding of a local worker's message.
#include "compress/exchange/round.h"
#include "compress/codecs/ternary_spec.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/runtime/errors.h"
#include "support/exchanges.h"

namespace terngrad::round_test {
namespace {

using testing::bits_of;
using testing::blank_tensors;
using testing::codecs_of;
using testing::kAlgorithms;
using testing::local_exchange;
using testing::mixed_layout;
using testing::options_of;
using testing::ReferenceExchange;
using testing::tables;
using testing::Tensors;
using testing::worker_gradients;

TEST(Round, DecodeLocalIsWhatWasSent) {
  const Layout layout = mixed_layout();
  const auto workers = worker_gradients(layout, 3);
  for (const ExchangeAlgorithm algorithm : kAlgorithms) {
    for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kNone}) {
      if (sharing == ScalerSharing::kNone && algorithm == ExchangeAlgorithm::kIntegerSum) continue;
      auto options = options_of(algorithm);
      options.codecs.codec = ternary_spec({.sharing = sharing});
      CompressedAllReduce exchange = local_exchange(layout, 3, options);
      Tensors mean = blank_tensors(layout);
      exchange.exchange(tables(workers, 0, 3), mean.table, 6);
      ReferenceExchange reference{layout,
                                  codecs_of(exchange, layout),
                                  testing::ternary_of(options),
                                  DownlinkCodec::kFloat32,
                                  options.seed,
                                  6,
                                  {},
                                  {},
                                  {}};
      reference.run(workers);
      for (int w = 0; w < 3; ++w) {
        for (int t = 0; t < layout.num_segments(); ++t) {
          const auto tensor = static_cast<std::size_t>(t);
          const auto worker = static_cast<std::size_t>(w);
          std::vector<float> decoded(static_cast<std::size_t>(layout.segment(t).num_elements), -1);
          exchange.decode_local(w, t, decoded);
          for (std::size_t i = 0; i < decoded.size(); ++i) {
            float expected = workers[worker].values[tensor][i];
            if (reference.codecs[tensor] == "bf16") expected = reference::from_bfloat16(reference::bfloat16(expected));
            if (reference.codecs[tensor] == "ternary") {
              const float s = sharing == ScalerSharing::kNone ? reference.local_scalers[worker][tensor][0]
                                                              : reference.shared_scalers[tensor][0];
              expected = s * static_cast<float>(reference.codes[tensor][worker][i]);
            }
            ASSERT_EQ(bits_of(decoded[i]), bits_of(expected)) << word_of(algorithm) << w << " " << t << " " << i;
          }
        }
      }
    }
  }
}

TEST(Round, DecodeLocalRefusesWhatIsNotThere) {
  const Layout layout = mixed_layout();
  CompressedAllReduce exchange = local_exchange(layout, 2, options_of(ExchangeAlgorithm::kAllGather));
  std::vector<float> out(7);
  EXPECT_THROW(exchange.decode_local(0, 1, out), InvalidArgument);  // before the first step
  const auto workers = worker_gradients(layout, 2);
  Tensors mean = blank_tensors(layout);
  exchange.exchange(tables(workers, 0, 2), mean.table, 0);
  EXPECT_NO_THROW(exchange.decode_local(0, 1, out));
  EXPECT_THROW(exchange.decode_local(2, 1, out), InvalidArgument);
  EXPECT_THROW(exchange.decode_local(-1, 1, out), InvalidArgument);
  EXPECT_THROW(exchange.decode_local(0, 7, out), InvalidArgument);
  std::vector<float> short_out(6);
  EXPECT_THROW(exchange.decode_local(0, 1, short_out), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::round_test

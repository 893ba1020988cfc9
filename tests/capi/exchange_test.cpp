#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compress/exchange/compressed_all_reduce.h"
#include "support/c_api.h"
#include "support/exchanges.h"

namespace terngrad::capi_exchange_test {
namespace {

using testing::c_arrays;
using testing::CExchange;
using testing::CPlan;
using testing::fails;
using ::testing::HasSubstr;
using testing::is_ok;
using testing::is_refused;
using testing::sized;
using testing::Tensors;
using Numbers = std::vector<std::int32_t>;

constexpr int kWorkers = 4;
const Numbers kAll = {0, 1, 2, 3, 4, 5, 6};

/// Exchanges the given tensors of all workers.
tg_status part(const CExchange& exchange, const Numbers& tensors, const std::vector<Tensors>& gradients, Tensors& mean,
               tg_report* report = nullptr) {
  std::vector<tg_array> arrays;
  for (const Tensors& worker : gradients) {
    for (const tg_array& array : c_arrays(worker.values, tensors)) arrays.push_back(array);
  }
  return tg_exchange_part(exchange.get(), tensors.data(), static_cast<std::int32_t>(tensors.size()), arrays.data(),
                          c_arrays(mean.values, tensors).data(), report);
}

/// Runs one step as two parts.
tg_report exchange_step(const CExchange& exchange, const std::vector<Tensors>& gradients, Tensors& mean,
                        std::uint64_t step) {
  tg_report report = sized<tg_report>();
  EXPECT_TRUE(is_ok(tg_exchange_begin(exchange.get(), step)));
  EXPECT_TRUE(is_ok(part(exchange, {5, 0, 2}, gradients, mean)));
  EXPECT_TRUE(is_ok(part(exchange, {1, 3, 4, 6}, gradients, mean)));
  EXPECT_TRUE(is_ok(tg_exchange_finish(exchange.get(), &report)));
  return report;
}

struct Case {
  const char* codec;
  ExchangeAlgorithm algorithm;
  DownlinkCodec downlink;
  const char* memory;
};
constexpr Case kCases[] = {
    {"fp32", ExchangeAlgorithm::kScatterReduce, DownlinkCodec::kBfloat16, "none"},
    {"ternary:clip_factor=2.5", ExchangeAlgorithm::kAllGather, DownlinkCodec::kFloat32, "ef:decay=0.5"},
    {"ternary", ExchangeAlgorithm::kIntegerSum, DownlinkCodec::kTernary, "none"},
    {"qsgd:bits=4,sharing=max", ExchangeAlgorithm::kAuto, DownlinkCodec::kSums, "momentum:decay=0.9"},
    {"natural", ExchangeAlgorithm::kAuto, DownlinkCodec::kFloat32, "none"},
};

TEST(CExchange, HasTheBitsAndBytesOfTheLibrarys) {
  const Layout layout = testing::mixed_layout();
  for (const Case& c : kCases) {
    CompressedAllReduceOptions options;
    options.codecs.codec = c.codec;
    options.algorithm = c.algorithm;
    options.downlink_codec = c.downlink;
    options.seed = 9;
    CompressedAllReduce expected(layout, make_worker_group(kWorkers, make_self_communicator()), options,
                                 parse_memory(c.memory));
    const CPlan plan = testing::c_plan(layout, kWorkers, std::string("codec=") + c.codec);
    tg_stream* stream = nullptr;
    ASSERT_TRUE(is_ok(tg_stream_cpu(3, &stream)));
    const std::string text = "algorithm=" + word_of(c.algorithm) + " downlink_codec=" + word_of(c.downlink) +
                             " memory=" + c.memory + " seed=9";
    const auto exchange = testing::make_handle<CExchange>(
        [&](tg_exchange** out) { return tg_exchange_create(plan.get(), nullptr, text.c_str(), stream, out); });
    tg_stream_destroy(stream);
    for (std::uint64_t step = 0; step < 3; ++step) {
      std::vector<Tensors> gradients = testing::worker_gradients(layout, kWorkers, step);
      const Tensors whole = testing::blank_tensors(layout);
      ExchangeReport expected_report;
      expected.begin(step);
      for (const Numbers& tensors : {Numbers{5, 0, 2}, Numbers{1, 3, 4, 6}}) {
        expected.exchange(tensors, testing::tables(gradients, 0, kWorkers), whole.table);
      }
      expected_report = expected.finish();
      Tensors out = testing::blank_tensors(layout);
      Tensors& mean = step == 2 ? gradients[1] : out;  // step 2: in place
      const tg_report report = exchange_step(exchange, gradients, mean, step);
      EXPECT_TRUE(testing::same_bits(whole.values, mean)) << text;
      EXPECT_EQ(report.sent_bytes, expected_report.sent_bytes());
      EXPECT_EQ(report.received_bytes, expected_report.received_bytes());
      EXPECT_EQ(report.scalers_sent, expected_report.scalers.sent);
      EXPECT_EQ(report.gradient_sent, expected_report.gradient.sent);
      EXPECT_EQ(report.mean_received, expected_report.mean.received);
      EXPECT_EQ(report.sent_bytes, report.scalers_sent + report.gradient_sent + report.mean_sent);
      EXPECT_EQ(report.received_bytes, report.scalers_received + report.gradient_received + report.mean_received);
      EXPECT_EQ(report.skipped, 0);
      EXPECT_STREQ(report.nonfinite, "");
      EXPECT_GT(report.measure_seconds + report.encode_seconds + report.decode_seconds, 0);
      std::vector<float> sent(8193);
      std::vector<float> found(8193);
      float scaler = -1;
      const tg_array array = testing::c_array(found);
      EXPECT_EQ(tg_exchange_decode_local(exchange.get(), 2, 3, &array, &scaler), TG_OK);
      EXPECT_EQ(expected.decode_local(2, 3, sent), scaler);
      EXPECT_EQ(sent, found);
    }
  }
}

TEST(CExchange, SurvivesWhatItWasMadeOf) {
  const Layout layout = testing::mixed_layout();
  auto communicator = testing::make_handle<testing::CCommunicator>(tg_communicator_self);
  CPlan plan = testing::c_plan(layout, kWorkers, "codec=terngrad_ef");
  const CExchange exchange = testing::c_exchange(plan, communicator.get(), "");
  plan.reset();
  communicator.reset();
  tg_exchange_info info = sized<tg_exchange_info>();
  ASSERT_TRUE(is_ok(tg_exchange_get_info(exchange.get(), &info)));
  EXPECT_EQ(info.num_workers, kWorkers);
  EXPECT_EQ(info.first_local_worker, 0);
  EXPECT_EQ(info.num_local_workers, kWorkers);
  EXPECT_STREQ(info.memory, "ef:decay=1");
  Tensors mean = testing::blank_tensors(layout);
  exchange_step(exchange, testing::worker_gradients(layout, kWorkers), mean, 0);
}

TEST(CExchange, RefusesOptionsByName) {
  const Layout layout = testing::mixed_layout();
  const CPlan plan = testing::c_plan(layout, 2, "codec=fp32");
  const auto make = [&](const char* options) {
    tg_exchange* made = nullptr;
    const tg_status status = tg_exchange_create(plan.get(), nullptr, options, nullptr, &made);
    EXPECT_EQ(made, nullptr);
    return status;
  };
  EXPECT_TRUE(is_refused(make("algorithm=ring"),
                         "option algorithm=ring is refused; accepted: auto, all_gather, scatter_reduce, integer_sum"));
  EXPECT_TRUE(is_refused(make("downlink_codec=int8"), "accepted: fp32, bf16, sums, ternary"));
  EXPECT_TRUE(is_refused(make("on_nonfinite=raise"), "accepted: stop, skip, zero"));
  EXPECT_TRUE(is_refused(make("memory=adam"), "accepted: none, ef, momentum, dgc, loco, ef21"));
  EXPECT_TRUE(is_refused(make("memory=ef"), "nothing to keep"));
  EXPECT_TRUE(is_refused(make("algorithm=integer_sum"), "integer_sum"));
  EXPECT_TRUE(is_refused(make("codec=ternary"),
                         "option codec is unknown; accepted: algorithm, downlink_codec, "
                         "on_nonfinite, seed, run_id, memory"));
  EXPECT_TRUE(is_refused(make("seed=1 seed=1"), "option seed is given 2 times"));
}

TEST(CExchange, RefusesPartsByName) {
  const Layout layout = testing::mixed_layout();
  const CPlan plan = testing::c_plan(layout, 2, "");
  const CExchange exchange = testing::c_exchange(plan, nullptr, "");
  std::vector<Tensors> gradients = testing::worker_gradients(layout, 2);
  Tensors mean = testing::blank_tensors(layout);
  EXPECT_TRUE(is_refused(part(exchange, {0}, gradients, mean), "no step has begun"));
  EXPECT_TRUE(is_refused(tg_exchange_finish(exchange.get(), nullptr), "no step has begun"));
  EXPECT_TRUE(is_refused(tg_exchange_begin(exchange.get(), std::uint64_t{1} << 40), "step"));
  ASSERT_TRUE(is_ok(tg_exchange_begin(exchange.get(), 3)));
  EXPECT_TRUE(is_refused(part(exchange, {}, gradients, mean), "n must be from 1 to 7, got 0"));
  const std::int32_t* const none = nullptr;
  const tg_array* const no_arrays = nullptr;
  const std::int32_t first = 0;
  const tg_array array = testing::c_array(gradients[0].values[0]);
  EXPECT_TRUE(is_refused(tg_exchange_part(exchange.get(), none, 1, no_arrays, no_arrays, nullptr), "tensors is NULL"));
  EXPECT_TRUE(
      is_refused(tg_exchange_part(exchange.get(), &first, 1, no_arrays, no_arrays, nullptr), "gradients is NULL"));
  const tg_array both[] = {array, array};
  EXPECT_TRUE(is_refused(tg_exchange_part(exchange.get(), &first, 1, both, no_arrays, nullptr), "mean, the arrays"));
  const auto with_tensors = [&](Numbers tensors) {
    return tg_exchange_part(exchange.get(), tensors.data(), static_cast<std::int32_t>(tensors.size()), both, both,
                            nullptr);
  };
  EXPECT_TRUE(is_refused(with_tensors({7}), "7"));
  EXPECT_TRUE(is_refused(with_tensors({-1}), "-1"));
  EXPECT_TRUE(is_refused(with_tensors({1, 1}), "twice"));
  std::vector<Tensors> wrong = testing::worker_gradients(layout, 2);
  wrong[1].values[3].pop_back();
  EXPECT_TRUE(is_refused(part(exchange, {0, 3}, wrong, mean),
                         "gradient of worker 1, tensor 'fc/weights' has 8192 elements, expected 8193"));
  tg_report report{};
  EXPECT_TRUE(is_refused(part(exchange, {0}, gradients, mean, &report), "report.struct_size is 0"));
  EXPECT_TRUE(is_refused(tg_exchange_finish(exchange.get(), &report), "report.struct_size is 0"));
  // The refused calls did not end the step.
  report = sized<tg_report>();
  EXPECT_TRUE(is_ok(part(exchange, {0, 3}, gradients, mean, &report)));
  EXPECT_GT(report.sent_bytes, 0);
  EXPECT_TRUE(is_refused(part(exchange, {3}, gradients, mean), "'fc/weights' was exchanged before in step 3"));
  EXPECT_TRUE(is_ok(tg_exchange_finish(exchange.get(), nullptr)));
  const tg_array out = testing::c_array(mean.values[0]);
  EXPECT_TRUE(is_ok(tg_exchange_decode_local(exchange.get(), 1, 0, &out, nullptr)));
  EXPECT_TRUE(is_refused(tg_exchange_decode_local(exchange.get(), 2, 0, &out, nullptr), "worker 2 is none of this"));
  EXPECT_TRUE(is_refused(tg_exchange_decode_local(exchange.get(), 0, 7, &out, nullptr), "tensor must be from 0 to 6"));
  EXPECT_TRUE(is_refused(tg_exchange_decode_local(exchange.get(), 0, 3, &out, nullptr), "out holds 4500"));
  EXPECT_TRUE(is_refused(tg_exchange_decode_local(exchange.get(), 0, 5, &out, nullptr), "sent nothing of tensor 5"));
}

TEST(CExchange, SaysWhatIsNotFinite) {
  const Layout layout = testing::mixed_layout();
  std::vector<Tensors> gradients = testing::worker_gradients(layout, 2);
  gradients[1].values[3][7] = NAN;
  const CPlan plan = testing::c_plan(layout, 2, "");
  Tensors mean = testing::blank_tensors(layout);
  const auto run = [&](const char* options, tg_report& report) {
    const CExchange exchange = testing::c_exchange(plan, nullptr, options);
    EXPECT_TRUE(is_ok(tg_exchange_begin(exchange.get(), 4)));
    EXPECT_TRUE(is_ok(part(exchange, kAll, gradients, mean, &report)));
    EXPECT_THAT(report.nonfinite, HasSubstr("'fc/weights' of worker 1"));
    const tg_status status = tg_exchange_finish(exchange.get(), &report);
    if (status == TG_OK) {
      EXPECT_THAT(report.nonfinite, HasSubstr("'fc/weights' of worker 1"));
    }
    return status;
  };
  tg_report report = sized<tg_report>();
  EXPECT_TRUE(fails(run("", report), TG_NONFINITE, "'fc/weights' of worker 1"));
  EXPECT_TRUE(is_ok(run("on_nonfinite=skip", report)));
  EXPECT_EQ(report.skipped, 1);
  EXPECT_TRUE(is_ok(run("on_nonfinite=zero", report)));
  EXPECT_EQ(report.skipped, 0);
  for (const float value : mean.values[3]) ASSERT_TRUE(std::isfinite(value));
}

/// Per-worker state of an exchange (residuals, velocities, factors) by worker and name.
struct State {
  std::map<std::pair<std::int32_t, std::string>, std::vector<float>> values;
  std::uint64_t fingerprint = 0;
  std::string memory;

  explicit State(const CExchange& exchange) {
    tg_exchange_info info = sized<tg_exchange_info>();
    EXPECT_TRUE(is_ok(tg_exchange_get_info(exchange.get(), &info)));
    fingerprint = info.fingerprint;
    memory = info.memory;
    EXPECT_TRUE(is_ok(tg_exchange_state(exchange.get(), &State::take, this)));
  }
  static int take(void* self, const tg_named_array* state) {
    EXPECT_EQ(state->values.flags, TG_READ_ONLY);
    const auto* values = static_cast<const float*>(state->values.data);
    static_cast<State*>(self)->values[{state->worker, state->name}].assign(values, values + state->values.count);
    return 0;
  }
  std::vector<tg_named_array> arrays() const {
    std::vector<tg_named_array> all;
    for (const auto& [key, each] : values) all.push_back({key.second.c_str(), key.first, 0, testing::c_array(each)});
    return all;
  }
  tg_status restore(const CExchange& exchange, const std::vector<tg_named_array>& states) const {
    return tg_exchange_restore(exchange.get(), fingerprint, memory.c_str(), states.data(),
                               static_cast<std::int32_t>(states.size()));
  }
};

TEST(CExchange, ContinuesFromARestoredState) {
  const Layout layout = testing::mixed_layout();
  const std::pair<const char*, std::size_t> codecs[] = {
      // All tensors except the fp32 one and the empty one.
      {"terngrad_ef", kWorkers * 5},
      {"signum", kWorkers * 5},
      {"ternary", 0},
      {"qsgd", kWorkers * 5},
      {"dgc:density=0.1", kWorkers * (5 + 7)},            // residuals, and velocities of all tensors
      {"topk", (kWorkers * 2 + 1) * 5},                   // estimates, their averages, and the mean of all workers'
      {"powersgd:rank=1,min_ratio=1", kWorkers * 1 + 1},  // residuals of the only matrix, and Q, common to all ranks
  };
  for (const auto& [codec, num_states] : codecs) {
    const CPlan plan = testing::c_plan(layout, kWorkers, std::string("codec=") + codec + " codec_for=plain=fp32");
    const std::string_view name = codec;
    const char* const options = name == "qsgd" ? "memory=loco" : name == "topk" ? "memory=ef21:decay=0.9" : "";
    const CExchange whole = testing::c_exchange(plan, nullptr, options);
    Tensors mean = testing::blank_tensors(layout);
    for (std::uint64_t step = 0; step < 2; ++step) {
      exchange_step(whole, testing::worker_gradients(layout, kWorkers, step), mean, step);
    }
    const State state(whole);
    EXPECT_EQ(state.values.size(), num_states) << codec;
    const CExchange resumed = testing::c_exchange(plan, nullptr, options);
    std::vector<tg_named_array> arrays = state.arrays();
    // As if the states of several ranks were combined: shared arrays appear twice.
    if (!arrays.empty() && arrays[0].worker < 0) arrays.push_back(arrays[0]);
    ASSERT_TRUE(is_ok(state.restore(resumed, arrays))) << codec;
    Tensors again = testing::blank_tensors(layout);
    exchange_step(whole, testing::worker_gradients(layout, kWorkers, 2), mean, 2);
    exchange_step(resumed, testing::worker_gradients(layout, kWorkers, 2), again, 2);
    EXPECT_TRUE(testing::same_bits(mean.values, again)) << codec;
  }
}

TEST(CExchange, RestoresNothingOfAStateThatDoesNotFit) {
  const Layout layout = testing::mixed_layout();
  const CPlan plan = testing::c_plan(layout, 2, "codec=terngrad_ef");
  const CExchange source = testing::c_exchange(plan, nullptr, "");
  Tensors mean = testing::blank_tensors(layout);
  exchange_step(source, testing::worker_gradients(layout, 2), mean, 0);
  const State state(source);
  const CExchange target = testing::c_exchange(plan, nullptr, "");
  const State before(target);
  const std::vector<tg_named_array> right = state.arrays();
  const auto changed = [&](const auto& change) {
    std::vector<tg_named_array> wrong = right;
    change(wrong);
    return state.restore(target, wrong);
  };
  using Arrays = std::vector<tg_named_array>;
  EXPECT_TRUE(is_refused(changed([](Arrays& a) { a.pop_back(); }), "the state of worker 1, tensor 'plain' is missing"));
  EXPECT_TRUE(is_refused(changed([](Arrays& a) { a.push_back(a[0]); }), "is given twice"));
  EXPECT_TRUE(is_refused(changed([](Arrays& a) { a[0].worker = 2; }), "the worker of a state must be from 0 to 1"));
  EXPECT_TRUE(
      is_refused(changed([](Arrays& a) { a[0].name = "nothing"; }), "tensor 'nothing' is none that this exchange has"));
  EXPECT_TRUE(is_refused(changed([](Arrays& a) { a[0].name = nullptr; }), "the name of a state is NULL"));
  EXPECT_TRUE(is_refused(changed([](Arrays& a) { a[0].values.count = 3; }), "has 3 elements, expected 7"));
  EXPECT_TRUE(is_refused(changed([](Arrays& a) { a[0].values.type = TG_FP16; }), "must be fp32"));
  EXPECT_TRUE(is_refused(tg_exchange_restore(target.get(), state.fingerprint, "momentum:decay=0.9", right.data(),
                                             static_cast<std::int32_t>(right.size())),
                         "the state is of memory momentum:decay=0.9, this exchange has ef:decay=1"));
  EXPECT_TRUE(is_refused(tg_exchange_restore(target.get(), state.fingerprint + 1, "ef:decay=1", right.data(),
                                             static_cast<std::int32_t>(right.size())),
                         "the state is of fingerprint"));
  EXPECT_TRUE(is_refused(tg_exchange_restore(target.get(), state.fingerprint, "ef:decay=1", nullptr, 3), "is NULL"));
  EXPECT_EQ(State(target).values, before.values);
  EXPECT_TRUE(is_ok(state.restore(target, right)));
  EXPECT_EQ(State(target).values, state.values);
}

TEST(CExchange, EndsWhereAVisitorFailsAndIsNotUsedByIt) {
  const Layout layout = testing::mixed_layout();
  const CPlan plan = testing::c_plan(layout, 2, "codec=terngrad_ef");
  const CExchange exchange = testing::c_exchange(plan, nullptr, "");
  const auto fail_on_second = [](void* self, const tg_named_array*) { return ++*static_cast<int*>(self) == 2 ? 5 : 0; };
  int calls = 0;
  EXPECT_TRUE(fails(tg_exchange_state(exchange.get(), fail_on_second, &calls), TG_CALLBACK, "it returned 5"));
  EXPECT_EQ(calls, 2);
  const auto use = [](void* self, const tg_named_array*) {
    EXPECT_TRUE(is_refused(tg_exchange_begin(static_cast<tg_exchange*>(self), 0), "the object is in use"));
    return 0;
  };
  EXPECT_TRUE(is_ok(tg_exchange_state(exchange.get(), use, exchange.get())));
}

}  // namespace
}  // namespace terngrad::capi_exchange_test

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/runtime/version.h"
#include "support/c_api.h"

namespace terngrad::capi_status_test {
namespace {

using testing::is_refused;
using ::testing::StartsWith;

TEST(CStatus, HasNamesAndVersions) {
  EXPECT_STREQ(tg_status_name(TG_OK), "TG_OK");
  EXPECT_STREQ(tg_status_name(TG_NONFINITE), "TG_NONFINITE");
  EXPECT_STREQ(tg_status_name(TG_INTERNAL), "TG_INTERNAL");
  EXPECT_STREQ(tg_status_name(TG_INTERNAL + 1), "unknown");
  EXPECT_STREQ(tg_status_name(-1), "unknown");
  EXPECT_EQ(tg_abi_version(), std::uint32_t{TG_ABI_VERSION});
  EXPECT_THAT(tg_version(), StartsWith(std::string(version()) + " "));
}

TEST(CStatus, KeepsTheLastErrorOfEachThread) {
  EXPECT_TRUE(is_refused(tg_layout_create(nullptr), "out is NULL"));
  std::thread([] {
    EXPECT_STREQ(tg_last_error(), "");
    EXPECT_TRUE(is_refused(tg_stream_cpu(0, nullptr), "out is NULL"));
    tg_stream* stream = nullptr;
    EXPECT_TRUE(is_refused(tg_stream_cpu(0, &stream), "num_threads must be from 1 to 4096, got 0"));
    EXPECT_EQ(stream, nullptr);
  }).join();
  // A successful call keeps the last error.
  tg_stream* stream = nullptr;
  EXPECT_EQ(tg_stream_cpu(2, &stream), TG_OK);
  tg_stream_destroy(stream);
  EXPECT_STREQ(tg_last_error(), "out is NULL");
}

TEST(CStatus, RefusesNullByName) {
  const testing::CLayout layout = testing::c_layout({});
  const testing::CPlan plan = testing::make_handle<testing::CPlan>(
      [&](tg_plan** out) { return tg_plan_create(layout.get(), 1, nullptr, out); });
  const testing::CEncoder encoder = testing::c_encoder(plan, 0, "");
  const testing::CExchange exchange = testing::c_exchange(plan, nullptr, "");
  tg_plan* made_plan = nullptr;
  tg_encoder* made_encoder = nullptr;
  tg_exchange* made_exchange = nullptr;
  tg_communicator* communicator = nullptr;
  const tg_array array{nullptr, 0, TG_FP32, TG_CPU, 0, 0};
  std::uint64_t number = 0;
  std::int64_t bytes = 0;
  const std::uint8_t* message = nullptr;
  const auto visitor = [](void*, const tg_named_array*) { return 0; };
  const std::vector<std::pair<std::function<tg_status()>, const char*>> refused = {
      {[&] { return tg_array_from_dlpack(nullptr, nullptr); }, "tensor"},
      {[&] { return tg_array_from_dlpack_legacy(nullptr, nullptr); }, "tensor"},
      {[&] { return tg_layout_add(nullptr, "a", nullptr, 0, 0, nullptr); }, "layout"},
      {[&] { return tg_layout_add(layout.get(), nullptr, nullptr, 0, 0, nullptr); }, "name"},
      {[&] { return tg_layout_add(layout.get(), "a", nullptr, 1, 0, nullptr); }, "shape"},
      {[&] { return tg_layout_fingerprint(nullptr, &number); }, "layout"},
      {[&] { return tg_layout_fingerprint(layout.get(), nullptr); }, "out"},
      {[&] { return tg_codec_list(nullptr, 1 << 20, nullptr); }, "text"},
      {[&] { return tg_plan_create(nullptr, 1, nullptr, &made_plan); }, "layout"},
      {[&] { return tg_plan_create(layout.get(), 1, nullptr, nullptr); }, "out"},
      {[&] { return tg_plan_get_info(plan.get(), nullptr); }, "out"},
      {[&] { return tg_plan_get_info(nullptr, nullptr); }, "plan"},
      {[&] { return tg_plan_tensor(nullptr, 0, nullptr); }, "plan"},
      {[&] { return tg_encoder_create(nullptr, 0, nullptr, &made_encoder); }, "plan"},
      {[&] { return tg_encoder_create(plan.get(), 0, nullptr, nullptr); }, "out"},
      {[&] { return tg_encoder_measure(nullptr, nullptr, 0, 0, nullptr); }, "encoder"},
      {[&] { return tg_encoder_scalers(nullptr, nullptr, 0); }, "encoder"},
      {[&] { return tg_encoder_set_scalers(nullptr, 0, nullptr, 0); }, "encoder"},
      {[&] { return tg_encoder_encode(nullptr, nullptr, 0, &message, &bytes, nullptr); }, "encoder"},
      {[&] { return tg_encoder_encode(encoder.get(), nullptr, 0, nullptr, &bytes, nullptr); }, "message"},
      {[&] { return tg_encoder_encode(encoder.get(), nullptr, 0, &message, nullptr, nullptr); }, "bytes"},
      {[&] { return tg_message_inspect(nullptr, 100, nullptr, nullptr, 0); }, "info"},
      {[&] { return tg_message_decode(nullptr, 0, 0, nullptr, 0, nullptr, 0, nullptr, nullptr); }, "plan"},
      {[&] { return tg_message_decode(plan.get(), 0, 0, nullptr, 9, nullptr, 0, nullptr, nullptr); }, "message"},
      {[&] { return tg_aggregate(nullptr, 0, 0, nullptr, nullptr, 1, nullptr, 0, nullptr); }, "plan"},
      {[&] { return tg_aggregate(plan.get(), 0, 0, nullptr, &bytes, 1, nullptr, 0, nullptr); }, "messages"},
      {[&] { return tg_aggregate(plan.get(), 0, 0, &message, nullptr, 1, nullptr, 0, nullptr); }, "bytes"},
      {[&] { return tg_communicator_self(nullptr); }, "out"},
      {[&] { return tg_communicator_custom(nullptr, &communicator); }, "ops"},
      {[&] { return tg_exchange_create(nullptr, nullptr, nullptr, nullptr, &made_exchange); }, "plan"},
      {[&] { return tg_exchange_create(plan.get(), nullptr, nullptr, nullptr, nullptr); }, "out"},
      {[&] { return tg_exchange_get_info(nullptr, nullptr); }, "exchange"},
      {[&] { return tg_exchange_begin(nullptr, 0); }, "exchange"},
      {[&] { return tg_exchange_part(nullptr, nullptr, 1, nullptr, nullptr, nullptr); }, "exchange"},
      {[&] { return tg_exchange_finish(nullptr, nullptr); }, "exchange"},
      {[&] { return tg_exchange_decode_local(nullptr, 0, 0, nullptr, nullptr); }, "exchange"},
      {[&] { return tg_exchange_state(nullptr, visitor, nullptr); }, "exchange"},
      {[&] { return tg_exchange_state(exchange.get(), nullptr, nullptr); }, "visitor"},
      {[&] { return tg_exchange_restore(nullptr, 0, "none", nullptr, 0); }, "exchange"},
      {[&] { return tg_exchange_restore(exchange.get(), 0, nullptr, nullptr, 0); }, "memory"},
      {[&] { return tg_statistics(nullptr, nullptr, nullptr); }, "tensor"},
      {[&] { return tg_statistics(&array, nullptr, nullptr); }, "out"},
      {[&] { return tg_telemetry(nullptr, nullptr, 0, nullptr); }, "gradient"},
      {[&] { return tg_telemetry(&array, nullptr, 0, nullptr); }, "sent"},
      {[&] { return tg_ternarize(nullptr, 0, nullptr, 0, 0, 0, 0, nullptr, nullptr, nullptr); }, "tensor"},
  };
  for (const auto& [call, name] : refused) EXPECT_TRUE(is_refused(call(), std::string(name) + " is NULL"));
  EXPECT_EQ(tg_incoming_add(nullptr, 1), nullptr);
  EXPECT_STREQ(tg_last_error(), "incoming is NULL");
  EXPECT_EQ(made_plan, nullptr);
  EXPECT_EQ(made_encoder, nullptr);
  EXPECT_EQ(made_exchange, nullptr);
  EXPECT_EQ(communicator, nullptr);
  tg_layout_destroy(nullptr);
  tg_plan_destroy(nullptr);
  tg_stream_destroy(nullptr);
  tg_encoder_destroy(nullptr);
  tg_communicator_destroy(nullptr);
  tg_exchange_destroy(nullptr);
}

}  // namespace
}  // namespace terngrad::capi_status_test

// Helpers for tests of the C API: owning handles, tg_array views, assertions on tg_status.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "capi/terngrad.h"
#include "support/gradients.h"

namespace terngrad::testing {

template <auto destroy>
struct Destroy {
  template <class Handle>
  void operator()(Handle* handle) const {
    destroy(handle);
  }
};
using CLayout = std::unique_ptr<tg_layout, Destroy<tg_layout_destroy>>;
using CPlan = std::unique_ptr<tg_plan, Destroy<tg_plan_destroy>>;
using CStream = std::unique_ptr<tg_stream, Destroy<tg_stream_destroy>>;
using CEncoder = std::unique_ptr<tg_encoder, Destroy<tg_encoder_destroy>>;
using CCommunicator = std::unique_ptr<tg_communicator, Destroy<tg_communicator_destroy>>;
using CExchange = std::unique_ptr<tg_exchange, Destroy<tg_exchange_destroy>>;

inline ::testing::AssertionResult is_ok(tg_status status) {
  if (status == TG_OK) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << tg_status_name(status) << ": " << tg_last_error();
}

/// Success if `status` is `expected` and the error message contains `words`.
inline ::testing::AssertionResult fails(tg_status status, tg_status expected, const std::string& words) {
  if (status != expected) {
    return ::testing::AssertionFailure() << tg_status_name(status) << " (" << tg_last_error() << "), expected "
                                         << tg_status_name(expected);
  }
  if (std::string(tg_last_error()).find(words) == std::string::npos) {
    return ::testing::AssertionFailure() << "'" << tg_last_error() << "' does not say '" << words << "'";
  }
  return ::testing::AssertionSuccess();
}
inline ::testing::AssertionResult is_refused(tg_status status, const std::string& words) {
  return fails(status, TG_INVALID_ARGUMENT, words);
}

/// Calls create(&handle), expects TG_OK and returns the handle as an owner.
template <class Owner, class Create>
Owner make_handle(const Create& create) {
  typename Owner::pointer made = nullptr;
  EXPECT_TRUE(is_ok(create(&made)));
  return Owner(made);
}

inline CLayout c_layout(const Layout& layout) {
  auto made = make_handle<CLayout>(tg_layout_create);
  for (int i = 0; i < layout.num_segments(); ++i) {
    const Segment& segment = layout.segment(i);
    std::int32_t index = -1;
    EXPECT_TRUE(is_ok(tg_layout_add(made.get(), segment.name.c_str(), segment.shape.data(),
                                    static_cast<std::int32_t>(segment.shape.size()),
                                    segment.is_logits ? TG_IS_LOGITS : 0, &index)));
    EXPECT_EQ(index, i);
  }
  return made;
}

inline CPlan c_plan(const Layout& layout, int num_workers, const std::string& options) {
  const CLayout of = c_layout(layout);
  return make_handle<CPlan>([&](tg_plan** out) { return tg_plan_create(of.get(), num_workers, options.c_str(), out); });
}

inline CEncoder c_encoder(const CPlan& plan, int worker, const std::string& options) {
  return make_handle<CEncoder>(
      [&](tg_encoder** out) { return tg_encoder_create(plan.get(), worker, options.c_str(), out); });
}

inline CExchange c_exchange(const CPlan& plan, const tg_communicator* communicator, const std::string& options) {
  return make_handle<CExchange>(
      [&](tg_exchange** out) { return tg_exchange_create(plan.get(), communicator, options.c_str(), nullptr, out); });
}

inline tg_array c_array(std::vector<float>& values) {
  return {values.data(), static_cast<std::int64_t>(values.size()), TG_FP32, TG_CPU, 0, 0};
}
/// Read-only array.
inline tg_array c_array(const std::vector<float>& values) {
  return {
      const_cast<float*>(values.data()), static_cast<std::int64_t>(values.size()), TG_FP32, TG_CPU, 0, TG_READ_ONLY};
}

/// Arrays of the listed tensors of a worker, all if `tensors` is empty.
template <class Values>
std::vector<tg_array> c_arrays(Values& values, const std::vector<std::int32_t>& tensors = {}) {
  std::vector<tg_array> arrays;
  for (const std::int32_t tensor : tensors) arrays.push_back(c_array(values[static_cast<std::size_t>(tensor)]));
  if (tensors.empty()) {
    for (auto& each : values) arrays.push_back(c_array(each));
  }
  return arrays;
}

/// A zeroed struct whose struct_size is set.
template <class Struct>
Struct sized() {
  Struct made{};
  made.struct_size = sizeof(Struct);
  return made;
}

}  // namespace terngrad::testing

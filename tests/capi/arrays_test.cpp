#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "capi/dlpack.h"
#include "support/c_api.h"
#if __has_include(<dlpack/dlpack.h>)
#include <dlpack/dlpack.h>
#endif

namespace terngrad::capi_arrays_test {
namespace {

using testing::c_array;
using testing::fails;
using testing::is_ok;
using testing::is_refused;

tg_status statistics_of(const tg_array& array) {
  tg_statistics_out out = testing::sized<tg_statistics_out>();
  return tg_statistics(&array, &out, nullptr);
}

TEST(CArrays, AreRefusedByName) {
  std::vector<float> values(4, 1.0f);
  const tg_array right = c_array(values);
  EXPECT_TRUE(is_ok(statistics_of(right)));
  const auto with = [&](auto member, auto value) {
    tg_array array = right;
    array.*member = value;
    return statistics_of(array);
  };
  EXPECT_TRUE(is_refused(with(&tg_array::type, 3), "tensor is of type 3; accepted: TG_FP32 (0)"));
  EXPECT_TRUE(is_refused(with(&tg_array::device_type, 2), "tensor is on device 2, 0; accepted: TG_CPU"));
  EXPECT_TRUE(is_refused(with(&tg_array::device_type, 0), "on device 0"));
  EXPECT_TRUE(is_refused(with(&tg_array::device_id, 1), "on device 1, 1"));
  EXPECT_TRUE(is_refused(with(&tg_array::flags, 2), "has flags 2"));
  EXPECT_TRUE(is_refused(with(&tg_array::count, -1), "has -1 elements"));
  EXPECT_TRUE(is_refused(with(&tg_array::count, std::int64_t{1} << 62), "elements"));
  EXPECT_TRUE(is_refused(with(&tg_array::data, nullptr), "data is NULL"));
  void* const misaligned = reinterpret_cast<char*>(values.data()) + 2;
  EXPECT_TRUE(is_refused(with(&tg_array::data, misaligned), "not aligned"));
  // An alignment of two bytes is enough for two-byte elements.
  const tg_array half{misaligned, 3, TG_FP16, TG_CPU, 0, TG_READ_ONLY};
  EXPECT_TRUE(is_ok(statistics_of(half)));
  EXPECT_TRUE(is_ok(statistics_of({nullptr, 0, TG_BF16, TG_CPU, 0, 0})));
}

TEST(CArrays, AreTheTensorsOfTheLayout) {
  Layout layout;
  layout.add("a", {3});
  layout.add("b", {2, 2});
  const testing::CPlan plan = testing::c_plan(layout, 1, "codec=fp32");
  const testing::CEncoder encoder = testing::c_encoder(plan, 0, "");
  std::vector<float> a(3, 1.0f);
  std::vector<float> b(4, 2.0f);
  const auto measure = [&](const std::vector<tg_array>& arrays) {
    return tg_encoder_measure(encoder.get(), arrays.data(), static_cast<std::int32_t>(arrays.size()), 0, nullptr);
  };
  tg_array half = c_array(b);
  half.type = TG_BF16;
  EXPECT_TRUE(is_ok(measure({c_array(a), c_array(b)})));
  EXPECT_TRUE(is_refused(measure({c_array(a)}), "gradient, got 1 arrays, expected 2"));
  EXPECT_TRUE(is_refused(measure({c_array(b), c_array(a)}), "gradient, tensor 'a' has 4 elements, expected 3"));
  EXPECT_TRUE(is_refused(measure({c_array(a), half}), "tensor 'b' is bf16, the tensors before it are fp32"));
  EXPECT_TRUE(is_refused(tg_encoder_measure(encoder.get(), nullptr, 2, 0, nullptr), "the arrays are NULL"));
  EXPECT_TRUE(is_refused(tg_encoder_measure(encoder.get(), nullptr, -1, 0, nullptr), "got -1 arrays"));

  ASSERT_TRUE(is_ok(measure({c_array(a), c_array(b)})));
  const std::vector<tg_array> gradient = {c_array(a), c_array(b)};
  const std::uint8_t* message = nullptr;
  std::int64_t bytes = 0;
  ASSERT_TRUE(is_ok(tg_encoder_encode(encoder.get(), gradient.data(), 2, &message, &bytes, nullptr)));
  const auto decode = [&](const std::vector<tg_array>& out) {
    return tg_message_decode(plan.get(), 0, 0, message, bytes, out.data(), 2, nullptr, nullptr);
  };
  std::vector<float> out(10);
  const tg_array first{out.data(), 3, TG_FP32, TG_CPU, 0, 0};
  tg_array read_only{out.data() + 3, 4, TG_FP32, TG_CPU, 0, TG_READ_ONLY};
  EXPECT_TRUE(is_refused(decode({first, read_only}), "out, tensor 'b' is read-only"));
  EXPECT_TRUE(is_refused(decode({first, half}), "out, tensor 'b' must be fp32, it is bf16"));
  EXPECT_TRUE(is_refused(decode({first, {out.data() + 2, 4, TG_FP32, TG_CPU, 0, 0}}), "memory overlaps"));
  EXPECT_EQ(out, std::vector<float>(10));
  EXPECT_TRUE(is_ok(decode({first, {out.data() + 3, 4, TG_FP32, TG_CPU, 0, 0}})));
  EXPECT_EQ(out, (std::vector<float>{1, 1, 1, 2, 2, 2, 2, 0, 0, 0}));
}

/// Versioned and legacy DLPack tensors that view the same values.
struct Exported {
  std::vector<float> values = std::vector<float>(24, 1.0f);
  std::vector<std::int64_t> shape = {2, 3, 4};
  std::vector<std::int64_t> strides = {12, 4, 1};
  capi::dlpack::ManagedTensorVersioned versioned{};

  Exported() {
    versioned.version = {1, 1};
    // The library must not call the deleter.
    versioned.deleter = [](void*) { FAIL() << "the deleter was called"; };
    versioned.tensor = {values.data(), {1, 0}, 3, {2, 32, 1}, shape.data(), strides.data(), 0};
  }
  tg_status take(tg_array* out) const {
    const tg_status status = tg_array_from_dlpack(reinterpret_cast<const DLManagedTensorVersioned*>(&versioned), out);
    tg_array legacy{};
    const capi::dlpack::ManagedTensor old{versioned.tensor, nullptr, versioned.deleter};
    if (versioned.version.major == 1) {
      EXPECT_EQ(tg_array_from_dlpack_legacy(reinterpret_cast<const DLManagedTensor*>(&old), &legacy), status);
      EXPECT_EQ(legacy.data, status == TG_OK ? out->data : nullptr);
    }
    return status;
  }
};

TEST(CArrays, ViewDlpackTensors) {
  Exported tensor;
  tg_array array{};
  ASSERT_TRUE(is_ok(tensor.take(&array)));
  EXPECT_EQ(array.data, tensor.values.data());
  EXPECT_EQ(array.count, 24);
  EXPECT_EQ(array.type, TG_FP32);
  EXPECT_EQ(array.device_type, TG_CPU);
  EXPECT_EQ(array.flags, 0);

  tensor.versioned.flags = 1;
  tensor.versioned.tensor.byte_offset = 8;
  tensor.versioned.tensor.strides = nullptr;
  tensor.versioned.tensor.dtype = {4, 16, 1};
  tensor.versioned.tensor.device = {2, 3};
  ASSERT_TRUE(is_ok(tensor.take(&array)));
  EXPECT_EQ(array.data, tensor.values.data() + 2);
  EXPECT_EQ(array.type, TG_BF16);
  EXPECT_EQ(array.device_type, 2);
  EXPECT_EQ(array.device_id, 3);
  EXPECT_EQ(array.flags, TG_READ_ONLY);
  tensor.versioned.tensor.dtype = {2, 16, 1};
  ASSERT_TRUE(is_ok(tensor.take(&array)));
  EXPECT_EQ(array.type, TG_FP16);

  // Strides of dimensions of size 1 and of empty tensors are ignored. No dimensions: one element.
  tensor = {};
  tensor.shape = {2, 1, 12};
  tensor.strides = {12, 7, 1};
  tensor.versioned.tensor.shape = tensor.shape.data();
  tensor.versioned.tensor.strides = tensor.strides.data();
  EXPECT_TRUE(is_ok(tensor.take(&array)));
  tensor.shape[0] = 0;
  tensor.versioned.tensor.data = nullptr;
  tensor.strides = {9, 9, 9};
  tensor.versioned.tensor.strides = tensor.strides.data();
  EXPECT_TRUE(is_ok(tensor.take(&array)));
  EXPECT_EQ(array.count, 0);
  Exported scalar;
  scalar.versioned.tensor.ndim = 0;
  scalar.versioned.tensor.shape = nullptr;
  EXPECT_TRUE(is_ok(scalar.take(&array)));
  EXPECT_EQ(array.count, 1);
}

TEST(CArrays, RefuseOtherDlpackTensors) {
  const auto refused = [](auto change) {
    Exported tensor;
    change(tensor.versioned, tensor);
    tg_array array{};
    const tg_status status = tensor.take(&array);
    EXPECT_EQ(array.data, nullptr);
    return status;
  };
  using Managed = capi::dlpack::ManagedTensorVersioned;
  EXPECT_TRUE(is_refused(refused([](Managed&, Exported& e) { e.strides[2] = 2; }), "not compact"));
  EXPECT_TRUE(is_refused(refused([](Managed&, Exported& e) {
                           e.strides = {1, 2, 6};
                           e.versioned.tensor.strides = e.strides.data();
                         }),
                         "not compact"));
  EXPECT_TRUE(is_refused(refused([](Managed& m, Exported&) { m.tensor.dtype = {2, 64, 1}; }), "type code 2, 64 bits"));
  EXPECT_TRUE(is_refused(refused([](Managed& m, Exported&) { m.tensor.dtype = {0, 32, 1}; }), "type code 0"));
  EXPECT_TRUE(is_refused(refused([](Managed& m, Exported&) { m.tensor.dtype.lanes = 4; }), "4 lanes"));
  EXPECT_TRUE(is_refused(refused([](Managed& m, Exported&) { m.tensor.byte_offset = 2; }), "not aligned"));
  EXPECT_TRUE(is_refused(refused([](Managed& m, Exported&) { m.tensor.ndim = -1; }), "-1 dimensions"));
  EXPECT_TRUE(is_refused(refused([](Managed& m, Exported&) { m.tensor.shape = nullptr; }), "no shape"));
  EXPECT_TRUE(is_refused(refused([](Managed&, Exported& e) { e.shape[1] = -3; }), "size of -3 in dimension 1"));
  EXPECT_TRUE(is_refused(refused([](Managed&, Exported& e) {
                           e.shape = {1ll << 40, 1ll << 40, 1};
                           e.versioned.tensor.shape = e.shape.data();
                         }),
                         "in dimension 1"));
  EXPECT_TRUE(is_refused(refused([](Managed& m, Exported&) { m.tensor.data = nullptr; }), "data is NULL"));
  EXPECT_TRUE(fails(refused([](Managed& m, Exported&) { m.version = {2, 0}; }), TG_NOT_SUPPORTED, "version 2.0"));
}

TEST(CArrays, HaveTheDlpackStructsOfItsOwnHeader) {
#if defined(DLPACK_MAJOR_VERSION) && DLPACK_MAJOR_VERSION == 1
  using Ours = capi::dlpack::ManagedTensorVersioned;
  using Tensor = capi::dlpack::Tensor;
  static_assert(sizeof(Tensor) == sizeof(DLTensor));
  static_assert(offsetof(Tensor, device) == offsetof(DLTensor, device));
  static_assert(offsetof(Tensor, ndim) == offsetof(DLTensor, ndim));
  static_assert(offsetof(Tensor, dtype) == offsetof(DLTensor, dtype));
  static_assert(offsetof(Tensor, shape) == offsetof(DLTensor, shape));
  static_assert(offsetof(Tensor, strides) == offsetof(DLTensor, strides));
  static_assert(offsetof(Tensor, byte_offset) == offsetof(DLTensor, byte_offset));
  static_assert(sizeof(Ours) == sizeof(DLManagedTensorVersioned));
  static_assert(offsetof(Ours, manager_context) == offsetof(DLManagedTensorVersioned, manager_ctx));
  static_assert(offsetof(Ours, deleter) == offsetof(DLManagedTensorVersioned, deleter));
  static_assert(offsetof(Ours, flags) == offsetof(DLManagedTensorVersioned, flags));
  static_assert(offsetof(Ours, tensor) == offsetof(DLManagedTensorVersioned, dl_tensor));
  static_assert(sizeof(capi::dlpack::ManagedTensor) == sizeof(DLManagedTensor));
  static_assert(capi::dlpack::kReadOnly == DLPACK_FLAG_BITMASK_READ_ONLY);
  static_assert(int{capi::dlpack::kFloat} == int{kDLFloat} && int{capi::dlpack::kBfloat} == int{kDLBfloat});
  static_assert(int{TG_CPU} == int{kDLCPU});
#else
  GTEST_SKIP() << "there is no <dlpack/dlpack.h> of version 1";
#endif
}

}  // namespace
}  // namespace terngrad::capi_arrays_test

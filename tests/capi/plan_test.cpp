#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "compress/plan/codec_presets.h"
#include "support/c_api.h"
#include "support/exchanges.h"

namespace terngrad::capi_plan_test {
namespace {

using testing::c_plan;
using testing::CLayout;
using testing::CPlan;
using ::testing::HasSubstr;
using testing::is_ok;
using testing::is_refused;
using testing::make_handle;
using testing::sized;
using ::testing::StartsWith;

tg_tensor_plan tensor_of(const CPlan& plan, int tensor) {
  tg_tensor_plan out = sized<tg_tensor_plan>();
  EXPECT_TRUE(is_ok(tg_plan_tensor(plan.get(), tensor, &out)));
  return out;
}

tg_plan_info info_of(const CPlan& plan) {
  tg_plan_info out = sized<tg_plan_info>();
  EXPECT_TRUE(is_ok(tg_plan_get_info(plan.get(), &out)));
  return out;
}

TEST(CLayout, HasTheFingerprintOfTheLibrarys) {
  Layout layout = testing::mixed_layout();
  layout.add("last", {3}, true);
  std::uint64_t fingerprint = 0;
  EXPECT_TRUE(is_ok(tg_layout_fingerprint(testing::c_layout(layout).get(), &fingerprint)));
  EXPECT_EQ(fingerprint, layout.fingerprint());
}

TEST(CLayout, RefusesTensors) {
  const auto layout = make_handle<CLayout>(tg_layout_create);
  const auto add = [&](const char* name, std::vector<std::int64_t> shape, std::uint32_t flags = 0) {
    std::int32_t index = 77;
    const tg_status status =
        tg_layout_add(layout.get(), name, shape.data(), static_cast<std::int32_t>(shape.size()), flags, &index);
    EXPECT_EQ(index == 77, status != TG_OK);
    return status;
  };
  EXPECT_TRUE(is_ok(add("a", {2, 3})));
  EXPECT_TRUE(is_ok(tg_layout_add(layout.get(), "scalar", nullptr, 0, 0, nullptr)));
  EXPECT_TRUE(is_refused(add("a", {2}), "'a'"));
  EXPECT_TRUE(is_refused(add("", {2}), "name"));
  EXPECT_TRUE(is_refused(add("b", {-1}), "'b'"));
  EXPECT_TRUE(is_refused(add("b", {std::int64_t{1} << 40, std::int64_t{1} << 40}), "'b'"));
  EXPECT_TRUE(is_refused(add("b", {1}, 2), "flags are 2"));
  const std::int64_t one = 1;
  EXPECT_TRUE(is_refused(tg_layout_add(layout.get(), "b", &one, -1, 0, nullptr), "dims must be from 0 to 64, got -1"));
}

TEST(CPlan, IsTheLibrarysPlan) {
  Layout layout = testing::mixed_layout();
  layout.add("last", {3}, true);
  const CPlan made = c_plan(layout, 5,
                            "codec=ternary clip_factor=2.5\tscope=block block=1344 codec_for=conv*=qsgd:bits=4 "
                            "codec_for=plain=bf16 codec_for=h?lf=fp8\nmin_elements=8");
  CodecPlanOptions options;
  options.codec = "ternary:clip_factor=2.5,scope=block,block=1344";
  options.rules = {{"conv*", "qsgd:bits=4"}, {"plain", "bf16"}, {"h?lf", "fp8"}};
  options.size_to_binarize = 8;
  options.context.num_workers = 5;
  const CodecPlan plan(layout, options);
  const tg_plan_info info = info_of(made);
  EXPECT_EQ(info.fingerprint, plan.fingerprint());
  EXPECT_EQ(info.num_workers, 5);
  EXPECT_EQ(info.num_tensors, layout.num_segments());
  EXPECT_EQ(info.num_scalers, plan.num_scalers());
  EXPECT_STREQ(info.memory, "none");
  for (int segment = 0; segment < layout.num_segments(); ++segment) {
    const tg_tensor_plan found = tensor_of(made, segment);
    const CodecTraits traits = plan.codec_of(segment).traits();
    EXPECT_EQ(found.name, layout.segment(segment).name);
    EXPECT_EQ(found.codec, plan.groups()[static_cast<std::size_t>(plan.group_of(segment))].spec);
    EXPECT_EQ(found.num_elements, layout.segment(segment).num_elements);
    EXPECT_EQ(found.bits_per_element, traits.bits_per_element);
    EXPECT_EQ(found.fixed_size != 0, traits.fixed_size);
    EXPECT_EQ(found.unbiased != 0, traits.unbiased);
    EXPECT_EQ(found.exact != 0, traits.is_exact);
    EXPECT_EQ(found.summable != 0, traits.summable);
    EXPECT_EQ(found.shares_scalers != 0, shares_scalers(plan.codec_of(segment)));
    EXPECT_EQ(found.first_scaler, plan.first_scaler(segment));
    EXPECT_EQ(found.num_scalers, plan.first_scaler(segment + 1) - plan.first_scaler(segment));
    EXPECT_EQ(found.draw_offset, layout.segment(segment).draw_offset);
  }
  tg_tensor_plan out = sized<tg_tensor_plan>();
  EXPECT_TRUE(is_refused(tg_plan_tensor(made.get(), layout.num_segments(), &out), "tensor must be from 0 to 7, got 8"));
  EXPECT_TRUE(is_refused(tg_plan_tensor(made.get(), -1, &out), "got -1"));
}

TEST(CPlan, HasDefaultsAndPresets) {
  Layout layout;
  layout.add("hidden", {50});
  layout.add("last", {50}, true);
  EXPECT_THAT(tensor_of(c_plan(layout, 2, ""), 0).codec, StartsWith("ternary:"));
  EXPECT_THAT(tensor_of(c_plan(layout, 2, ""), 1).codec, StartsWith("fp32"));
  EXPECT_THAT(tensor_of(c_plan(layout, 2, "quantize_logits=true"), 1).codec, StartsWith("ternary:"));
  EXPECT_THAT(tensor_of(c_plan(layout, 2, " min_elements=51 "), 0).codec, StartsWith("fp32"));
  EXPECT_STREQ(info_of(c_plan(layout, 2, "codec=onebit")).memory, "ef:decay=1");
  EXPECT_STREQ(info_of(c_plan(layout, 2, "codec=signum")).memory, "momentum:decay=0.9");
  const CPlan preset = c_plan(layout, 2, "codec=terngrad_ef clip_factor=3.5");
  EXPECT_THAT(tensor_of(preset, 0).codec, HasSubstr("clip_factor=3.5"));
  EXPECT_STREQ(info_of(preset).memory, "ef:decay=1");
}

TEST(CPlan, RefusesOptionsByNameAndSaysWhatIsAccepted) {
  Layout layout;
  layout.add("a", {50});
  const CLayout of = testing::c_layout(layout);
  const auto make = [&](const char* options, int num_workers = 2) {
    tg_plan* plan = nullptr;
    const tg_status status = tg_plan_create(of.get(), num_workers, options, &plan);
    EXPECT_EQ(plan, nullptr);
    return status;
  };
  EXPECT_TRUE(is_refused(make("colour=red"),
                         "option colour is unknown; accepted: codec, codec_for, min_elements, "
                         "quantize_logits, seed, clip_factor, "));
  EXPECT_TRUE(is_refused(make("codec=fp8 clip_factor=2"), "option clip_factor is unknown"));
  EXPECT_TRUE(is_refused(make("codec=ternary codec=fp32"), "option codec is given 2 times"));
  EXPECT_TRUE(is_refused(make("clip_factor=1 clip_factor=2"), "option clip_factor is given twice"));
  EXPECT_TRUE(is_refused(make("codec=ternary:clip_factor=1 clip_factor=2"), "clip_factor"));
  EXPECT_TRUE(is_refused(make("clip_factor=1,format=t5"), "option clip_factor=1,format=t5 is refused"));
  EXPECT_TRUE(is_refused(make("codec"), "option 'codec' is not KEY=VALUE"));
  EXPECT_TRUE(is_refused(make("codec="), "option 'codec=' is not KEY=VALUE"));
  EXPECT_TRUE(is_refused(make("=ternary"), "option '=ternary' is not KEY=VALUE"));
  EXPECT_TRUE(is_refused(make("codec=tern"), "ternary"));
  EXPECT_TRUE(is_refused(make("clip_factor=-1"), "clip_factor"));
  EXPECT_TRUE(is_refused(make("min_elements=-1"), "option min_elements=-1 is refused"));
  EXPECT_TRUE(is_refused(make("min_elements=1.5"), "it is not an integer; accepted: an integer of at least 0"));
  EXPECT_TRUE(is_refused(make("min_elements=99999999999999999999"), "greater than"));
  EXPECT_TRUE(is_refused(make("min_elements=18446744073709551615"), "option min_elements must be from 0"));
  EXPECT_TRUE(is_refused(make("quantize_logits=yes"), "option quantize_logits=yes is refused; accepted: false, true"));
  EXPECT_TRUE(is_refused(make("codec_for=none*=fp32"), "none*"));
  EXPECT_TRUE(is_refused(make("codec_for=a"), "PATTERN=SPEC"));
  EXPECT_TRUE(is_refused(make("", 0), "num_workers must be from 1 to 16777216, got 0"));
}

TEST(CPlan, FillsInWhatFits) {
  Layout layout;
  layout.add("a", {50});
  const CPlan plan = c_plan(layout, 2, "");
  tg_plan_info out{};
  for (const std::uint32_t size : {std::uint32_t{0}, std::uint32_t{sizeof(out) - 8}, ~std::uint32_t{0}}) {
    out.struct_size = size;
    EXPECT_TRUE(is_refused(tg_plan_get_info(plan.get(), &out), "out.struct_size is " + std::to_string(size)));
    EXPECT_EQ(out.num_workers, 0);
  }
  // A caller with a later, larger struct: unknown fields become 0, and memory behind the struct stays untouched.
  struct {
    tg_plan_info info;
    std::uint64_t later;
    std::uint64_t behind;
  } larger;
  std::memset(&larger, 0xee, sizeof(larger));
  larger.info.struct_size = sizeof(tg_plan_info) + 8;
  EXPECT_TRUE(is_ok(tg_plan_get_info(plan.get(), &larger.info)));
  EXPECT_EQ(larger.info.struct_size, sizeof(tg_plan_info) + 8);
  EXPECT_EQ(larger.info.num_workers, 2);
  EXPECT_EQ(larger.later, 0u);
  EXPECT_EQ(larger.behind, 0xeeeeeeeeeeeeeeeeu);
}

TEST(CCodecList, ListsTheRegistry) {
  std::int64_t needed = 0;
  ASSERT_TRUE(is_ok(tg_codec_list(nullptr, 0, &needed)));
  std::string text(static_cast<std::size_t>(needed), 'x');
  EXPECT_TRUE(is_refused(tg_codec_list(text.data(), needed - 1, nullptr), "capacity is"));
  EXPECT_TRUE(is_refused(tg_codec_list(text.data(), -1, nullptr), "capacity is -1"));
  EXPECT_EQ(text.find_first_not_of('x'), std::string::npos);
  ASSERT_TRUE(is_ok(tg_codec_list(text.data(), needed, &needed)));
  EXPECT_EQ(std::strlen(text.c_str()) + 1, static_cast<std::size_t>(needed));
  for (const CodecEntry& entry : codec_entries()) {
    EXPECT_THAT(text, HasSubstr("{\"name\": \"" + std::string(entry.name) + "\""));
    for (const SpecKey& key : codec_keys(entry.name)) {
      EXPECT_THAT(text, HasSubstr("\"default\": \"" + key.default_value + "\""));
    }
  }
  for (const CodecPreset& preset : codec_presets()) EXPECT_THAT(text, HasSubstr(preset.spec));
}

}  // namespace
}  // namespace terngrad::capi_plan_test

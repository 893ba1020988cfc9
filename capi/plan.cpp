#include "capi/plan.h"

#include <utility>
#include <vector>

#include "capi/options.h"
#include "capi/status.h"
#include "capi/structs.h"
#include "compress/memory/memory_options.h"
#include "compress/memory/worker_memory.h"
#include "compress/plan/codec_presets.h"

using namespace terngrad;
using namespace terngrad::capi;

namespace {

constexpr int kMaxWorkers = 1 << 24;

/// The spec of a codec with the remaining options, which are its keys.
std::string spec_of(const std::string& codec, Options& options) {
  CodecSpec spec = parse_codec_spec(codec);
  std::vector<std::string> keys;
  for (const SpecKey& key : codec_keys(expand_preset(spec, codec_presets()).spec.name)) keys.push_back(key.name);
  for (auto& [key, value] : options.rest(keys)) {
    TERNGRAD_REQUIRE(value.find(',') == std::string::npos, "option ", key, "=", value, " is refused: it has a comma");
    spec.options.emplace_back(std::move(key), std::move(value));
  }
  return to_string(spec);
}

Plan make_plan(const Layout& layout, int num_workers, const char* text) {
  require_range("num_workers", num_workers, 1, kMaxWorkers);
  Options options(text);
  CodecPlanOptions plan;
  const std::string codec = options.text("codec", plan.codec);
  for (const std::string& rule : options.all("codec_for")) plan.rules.push_back(parse_codec_rule(rule));
  const std::uint64_t min_elements = options.number("min_elements", 1);
  require_range("option min_elements", min_elements, std::uint64_t{0}, std::uint64_t{1} << 62);
  plan.size_to_binarize = static_cast<std::int64_t>(min_elements);
  plan.quantize_logits = options.flag("quantize_logits", false);
  const std::uint64_t seed = options.number("seed", 1);
  plan.codec = spec_of(codec, options);
  plan.context.num_workers = num_workers;
  CodecPlan codecs(layout, plan);
  std::string memory = canonical_memory(default_memory(plan.codec, codecs, num_workers));
  return {layout, std::move(codecs), num_workers, std::move(memory), seed};
}

}  // namespace

extern "C" {

tg_status tg_layout_create(tg_layout** out) {
  return guard([&] {
    tg_layout*& made = deref(out, "out");
    made = new tg_layout;
  });
}

void tg_layout_destroy(tg_layout* layout) { delete layout; }

tg_status tg_layout_add(tg_layout* layout, const char* name, const int64_t* shape, int32_t dims, uint32_t flags,
                        int32_t* index) {
  return guard([&] {
    Layout& target = deref(layout, "layout").layout;
    deref(name, "name");
    require_range("dims", dims, 0, 64);
    TERNGRAD_REQUIRE(shape != nullptr || dims == 0, "shape is NULL, but dims is ", dims);
    TERNGRAD_REQUIRE((flags & ~std::uint32_t{TG_IS_LOGITS}) == 0, "flags are ", flags,
                     "; accepted: 0, TG_IS_LOGITS (1)");
    const int added = target.add(name, std::vector<std::int64_t>(shape, shape + dims), (flags & TG_IS_LOGITS) != 0);
    if (index != nullptr) *index = added;
  });
}

tg_status tg_layout_fingerprint(const tg_layout* layout, uint64_t* out) {
  return guard([&] { deref(out, "out") = deref(layout, "layout").layout.fingerprint(); });
}

tg_status tg_plan_create(const tg_layout* layout, int32_t num_workers, const char* options, tg_plan** out) {
  return guard([&] {
    tg_plan*& made = deref(out, "out");
    made = new tg_plan{std::make_shared<const Plan>(make_plan(deref(layout, "layout").layout, num_workers, options))};
  });
}

void tg_plan_destroy(tg_plan* plan) { delete plan; }

tg_status tg_plan_get_info(const tg_plan* plan, tg_plan_info* out) {
  return guard([&] {
    const Plan& of = *deref(plan, "plan").plan;
    check_struct(out, "out");
    fill(out, {.struct_size = 0,
               .num_workers = of.num_workers,
               .num_tensors = of.layout.num_segments(),
               .reserved = 0,
               .num_scalers = of.codecs.num_scalers(),
               .fingerprint = of.codecs.fingerprint(),
               .memory = of.memory.c_str()});
  });
}

tg_status tg_plan_tensor(const tg_plan* plan, int32_t tensor, tg_tensor_plan* out) {
  return guard([&] {
    const Plan& of = *deref(plan, "plan").plan;
    check_struct(out, "out");
    require_range("tensor", tensor, 0, of.layout.num_segments() - 1);
    const Segment& segment = of.layout.segment(tensor);
    const CodecPlan::Group& group = of.codecs.groups()[static_cast<std::size_t>(of.codecs.group_of(tensor))];
    const CodecTraits traits = group.codec->traits();
    fill(out, {.struct_size = 0,
               .fixed_size = traits.fixed_size ? 1 : 0,
               .name = segment.name.c_str(),
               .codec = group.spec.c_str(),
               .num_elements = segment.num_elements,
               .bits_per_element = traits.bits_per_element,
               .unbiased = traits.unbiased ? 1 : 0,
               .exact = traits.is_exact ? 1 : 0,
               .summable = traits.summable ? 1 : 0,
               .shares_scalers = shares_scalers(*group.codec) ? 1 : 0,
               .first_scaler = of.codecs.first_scaler(tensor),
               .num_scalers = of.codecs.first_scaler(tensor + 1) - of.codecs.first_scaler(tensor),
               .draw_offset = segment.draw_offset});
  });
}

}  // extern "C"

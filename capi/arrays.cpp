#include "capi/arrays.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "capi/status.h"

namespace terngrad::capi {
namespace {

/// Limit of a tensor's elements, given by the counter of its draws.
constexpr std::int64_t kMaxCount = std::int64_t{1} << 50;

std::vector<void*> pointers_of(const Layout& layout, const tg_array* arrays, std::int32_t n, const std::string& whose,
                               bool writes) {
  TERNGRAD_REQUIRE(n == layout.num_segments(), whose, "got ", n, " arrays, expected ", layout.num_segments());
  TERNGRAD_REQUIRE(arrays != nullptr || n == 0, whose, "the arrays are NULL");
  std::vector<void*> pointers;
  pointers.reserve(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) {
    const Segment& segment = layout.segment(i);
    const std::string name = whose + "tensor '" + segment.name + "'";
    if (writes) {
      write_floats(arrays[i], name);
    } else {
      read_array(arrays[i], name);
    }
    TERNGRAD_REQUIRE(arrays[i].count == segment.num_elements, name, " has ", arrays[i].count, " elements, expected ",
                     segment.num_elements);
    TERNGRAD_REQUIRE(arrays[i].type == arrays[0].type, name, " is ",
                     element_type_name(element_type_of(arrays[i], name)), ", the tensors before it are ",
                     element_type_name(element_type_of(arrays[0], name)));
    pointers.push_back(arrays[i].data);
  }
  return pointers;
}

void require_apart(const tg_array* arrays, std::int32_t n, const std::string& whose) {
  std::vector<std::pair<const float*, const float*>> ranges;
  for (int i = 0; i < n; ++i) {
    const auto* begin = static_cast<const float*>(arrays[i].data);
    if (arrays[i].count > 0) ranges.emplace_back(begin, begin + arrays[i].count);
  }
  std::ranges::sort(ranges);
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    TERNGRAD_REQUIRE(ranges[i].first >= ranges[i - 1].second, whose, "there are arrays whose memory overlaps");
  }
}

}  // namespace

ElementType element_type_of(const tg_array& array, const std::string& name) {
  switch (array.type) {
    case TG_FP32:
      return ElementType::kFloat32;
    case TG_BF16:
      return ElementType::kBfloat16;
    case TG_FP16:
      return ElementType::kFloat16;
    default:
      TERNGRAD_THROW(InvalidArgument, name, " is of type ", array.type,
                     "; accepted: TG_FP32 (0), TG_BF16 (1), TG_FP16 (2)");
  }
}

TensorElements read_array(const tg_array& array, const std::string& name) {
  const ElementType type = element_type_of(array, name);
  TERNGRAD_REQUIRE(array.device_type == TG_CPU && array.device_id == 0, name, " is on device ", array.device_type, ", ",
                   array.device_id, "; accepted: TG_CPU (1), 0");
  TERNGRAD_REQUIRE((array.flags & ~TG_READ_ONLY) == 0, name, " has flags ", array.flags,
                   "; accepted: 0, TG_READ_ONLY (1)");
  TERNGRAD_REQUIRE(array.count >= 0 && array.count <= kMaxCount, name, " has ", array.count, " elements");
  TERNGRAD_REQUIRE(array.data != nullptr || array.count == 0, name, " has ", array.count,
                   " elements, but data is NULL");
  TERNGRAD_REQUIRE(reinterpret_cast<std::uintptr_t>(array.data) % element_bytes(type) == 0, name,
                   " is not aligned to the size of its elements");
  return {array.data, array.count, type};
}

std::span<const float> read_floats(const tg_array& array, const std::string& name) {
  const TensorElements elements = read_array(array, name);
  TERNGRAD_REQUIRE(elements.type == ElementType::kFloat32, name, " must be fp32, it is ",
                   element_type_name(elements.type));
  return {static_cast<const float*>(elements.values), static_cast<std::size_t>(elements.count)};
}

std::span<float> write_floats(const tg_array& array, const std::string& name) {
  const std::span<const float> floats = read_floats(array, name);
  TERNGRAD_REQUIRE((array.flags & TG_READ_ONLY) == 0, name, " is read-only, but is written to");
  return {static_cast<float*>(array.data), floats.size()};
}

TensorTable read_table(const Layout& layout, const tg_array* arrays, std::int32_t n, const std::string& whose) {
  const std::vector<void*> pointers = pointers_of(layout, arrays, n, whose, false);
  return {layout, n == 0 ? ElementType::kFloat32 : element_type_of(arrays[0], whose), pointers};
}

TensorTable write_table(const Layout& layout, const tg_array* arrays, std::int32_t n, const std::string& whose) {
  const std::vector<void*> pointers = pointers_of(layout, arrays, n, whose, true);
  require_apart(arrays, n, whose);
  return {layout, ElementType::kFloat32, pointers};
}

}  // namespace terngrad::capi

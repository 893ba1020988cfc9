// Caller-provided output structs that begin with struct_size.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "capi/status.h"

namespace terngrad::capi {

/// Checks an output struct. @throws InvalidArgument for NULL and for a struct_size that no version has
template <class Struct>
void check_struct(const Struct* out, const char* name) {
  // Structs only grow: when one does, its old size becomes the minimum. The upper bound detects an uninitialized size.
  constexpr std::uint32_t kMost = 4096;
  const std::uint32_t size = deref(out, name).struct_size;
  TERNGRAD_REQUIRE(size >= sizeof(Struct) && size <= kMost, name, ".struct_size is ", size, "; set it to sizeof, ",
                   sizeof(Struct), " in this version");
}

/// Fills in a checked struct; fields that only a later version has become 0.
template <class Struct>
void fill(Struct* out, Struct value) {
  value.struct_size = out->struct_size;
  std::memset(static_cast<void*>(out), 0, value.struct_size);
  std::memcpy(static_cast<void*>(out), &value, std::min<std::size_t>(value.struct_size, sizeof(Struct)));
}

}  // namespace terngrad::capi

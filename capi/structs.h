// Structs of the caller's that begin with struct_size.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "capi/status.h"

namespace terngrad::capi {

/// Checks a struct that is to be filled in. @throws InvalidArgument for NULL, and for a size that no version of it has
template <class Struct>
void check_struct(const Struct* out, const char* name) {
  // Structs only grow: when one does, its size before becomes the least that is accepted. The upper bound finds what
  // was not set.
  constexpr std::uint32_t kMost = 4096;
  const std::uint32_t size = deref(out, name).struct_size;
  TERNGRAD_REQUIRE(size >= sizeof(Struct) && size <= kMost, name, ".struct_size is ", size, "; set it to sizeof, ",
                   sizeof(Struct), " in this version");
}

/// Fills in a struct that has been checked; what a later version has more becomes 0.
template <class Struct>
void fill(Struct* out, Struct value) {
  value.struct_size = out->struct_size;
  std::memset(static_cast<void*>(out), 0, value.struct_size);
  std::memcpy(static_cast<void*>(out), &value, std::min<std::size_t>(value.struct_size, sizeof(Struct)));
}

}  // namespace terngrad::capi

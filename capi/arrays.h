// Checked access to the caller's arrays, one by one and as tables.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "capi/terngrad.h"
#include "compress/plan/tensor_analysis.h"
#include "kernels/tensor/slice.h"

namespace terngrad::capi {

/// The element type of a tg_array. @throws InvalidArgument for an unknown type number
ElementType element_type_of(const tg_array& array, const std::string& name);

/// An input array. @param name  name in error messages: "gradient of worker 1, tensor 'fc/weights'"
/// @throws InvalidArgument for an invalid type, device, flags, size or address
TensorElements read_array(const tg_array& array, const std::string& name);
/// The same for a float32 array. @throws InvalidArgument also for other types
std::span<const float> read_floats(const tg_array& array, const std::string& name);
/// An output array. @throws InvalidArgument also if it is not float32 or is read-only
std::span<float> write_floats(const tg_array& array, const std::string& name);

/// Input arrays for the tensors of a layout. @param arrays  [n]; @param whose  prefix in error messages: "gradient of
/// worker 1, ". @throws InvalidArgument also for a wrong number or size of arrays, and for arrays of different types
TensorTable read_table(const Layout& layout, const tg_array* arrays, std::int32_t n, const std::string& whose);
/// The same for output arrays. @throws InvalidArgument also for arrays that overlap
TensorTable write_table(const Layout& layout, const tg_array* arrays, std::int32_t n, const std::string& whose);

}  // namespace terngrad::capi

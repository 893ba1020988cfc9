// Arrays of the caller's: what they have to be, and tables of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "capi/terngrad.h"
#include "compress/plan/tensor_analysis.h"
#include "kernels/tensor/slice.h"

namespace terngrad::capi {

/// Of a tg_array. @throws InvalidArgument for a number that is none
ElementType element_type_of(const tg_array& array, const std::string& name);

/// An array that is read. @param name  in the text of a refusal: "gradient of worker 1, tensor 'fc/weights'"
/// @throws InvalidArgument for a type, device, flags, size or address that no array has
TensorElements read_array(const tg_array& array, const std::string& name);
/// The same of float32. @throws InvalidArgument also for another type
std::span<const float> read_floats(const tg_array& array, const std::string& name);
/// An array that is written. @throws InvalidArgument also for another type than float32, and for one that is read-only
std::span<float> write_floats(const tg_array& array, const std::string& name);

/// The tensors of a layout. @param arrays  [n]; @param whose  in the text of a refusal: "gradient of worker 1, "
/// @throws InvalidArgument also for another number of arrays, sizes, and arrays of several types
TensorTable read_table(const Layout& layout, const tg_array* arrays, std::int32_t n, const std::string& whose);
/// The same to be written. @throws InvalidArgument also for arrays that overlap
TensorTable write_table(const Layout& layout, const tg_array* arrays, std::int32_t n, const std::string& whose);

}  // namespace terngrad::capi

// Element-wise conversions on the CPU.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/device.h"
#include "kernels/parallel.h"

namespace terngrad::cpu {

/// out[i] = function(values[i]), where `function` is inlined and simple enough for the compiler to vectorize.
/// Conversions to and from 16 bits are, and memory is what bounds them.
template <class From, class To, class Function>
void convert(std::span<const From> values, std::span<To> out, const Stream& stream, const Function& function) {
  constexpr std::int64_t kGrain = 16384;  // elements worth a thread
  parallel_for(stream.num_threads(), static_cast<std::int64_t>(values.size()), kGrain,
               [&](std::int64_t begin, std::int64_t end) {
                 for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
                   out[i] = function(values[i]);
                 }
               });
}

}  // namespace terngrad::cpu

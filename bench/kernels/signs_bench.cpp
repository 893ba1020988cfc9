// Packing of signs.
#include "kernels/codes/signs.h"

#include "bench/quantize_bench.h"

namespace terngrad::bench {
namespace {

/// Signs of worker 0 in step 1, which alternate where elements are zero.
bool is_right(const PackedCodes& codes, std::int64_t i, float g) {
  const bool found = (codes.payload[static_cast<std::size_t>(i / 8)] >> (i % 8) & 1) != 0;
  return found == (g != 0 ? g < 0 : (1 + i) % 2 == 1);
}

const Registration registration(__FILE__, [](Rows& rows) {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
    add_quantizer<SignPacker, SignOptions>(
        rows, {.name = "signs", .format = CodeFormat::kBits, .type = type, .scaler = 0.01f, .is_right = is_right});
  }
});

}  // namespace
}  // namespace terngrad::bench

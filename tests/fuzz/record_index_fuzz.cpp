// Input: a record index. Accepted ones serialize to the same bytes.
#include <algorithm>
#include <string>

#include "datasets/records/record_index.h"
#include "kernels/runtime/errors.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace terngrad;
  fuzz::survive<DataError>([&] {
    const RecordIndex index = RecordIndex::from_bytes("input", {data, size});
    const std::string bytes = index.to_bytes();
    fuzz::require(std::ranges::equal(bytes, std::span(data, size),
                                     [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; }));
  });
  return 0;
}

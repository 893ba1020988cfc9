// Input: choice 0: a .gz file; 1: a .xz file. At most 1 MiB after decompression.
#include "datasets/formats/compressed_file.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace terngrad;
  constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
  std::span input(data, size);
  const char* name = fuzz::take_choice(input) % 2 == 0 ? "input.gz" : "input.xz";
  fuzz::survive<DataError>([&] {
    fuzz::require(unpack_data(name, {input.begin(), input.end()}, kMaxBytes).size() <= kMaxBytes);
  });
  return 0;
}

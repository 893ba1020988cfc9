// Input: a gradient file. Choice 0: .npy, 1: .safetensors.
#include "tests/fuzz/fuzz_input.h"
#include "trainers/inspect/gradient_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace terngrad;
  std::span<const std::uint8_t> content(data, size);
  const char* const source = fuzz::take_choice(content) % 2 == 0 ? "input.npy" : "input.safetensors";
  fuzz::survive<DataError>([&] {
    const GradientFile file = parse_gradient_file(content, source);
    fuzz::require(!file.workers.empty() && file.layout.num_elements() > 0);
    for (const Buffer<float>& worker : file.workers) {
      fuzz::require(worker.num_elements() == file.layout.flat_elements());
      for (const float value : worker.span()) fuzz::require(value - value == 0);  // finite
    }
  });
  return 0;
}

// Input: a safetensors file, which may be a checkpoint.
#include "trainers/checkpoint/checkpoint.h"

#include <vector>

#include "tests/fuzz/fuzz_input.h"
#include "trainers/io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace terngrad;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  const std::vector<std::byte> content(bytes.begin(), bytes.end());
  fuzz::survive<DataError>([&] {
    const SafetensorsFile file = SafetensorsFile::parse(content, "input");
    for (const TensorRecord& tensor : file.tensors()) {
      std::int64_t elements = 1;
      for (const std::int64_t side : tensor.shape) elements *= side;
      fuzz::require(elements == tensor.num_elements() && file.find(tensor.name) != nullptr);
    }
  });
  fuzz::survive<DataError>([&] {
    const Checkpoint checkpoint = parse_checkpoint(content, "input");
    Layout layout;
    layout.add("w", {2, 3});
    std::vector<float> values(static_cast<std::size_t>(layout.flat_elements()));
    checkpoint.read_group("parameters", layout, values);
  });
  return 0;
}

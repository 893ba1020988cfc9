// Input: a .tgrd file (an encoded gradient). Choice 0: unchanged; 1: the checksums of its message are repaired first.
#include "trainers/inspect/encoded_file.h"

#include <algorithm>
#include <vector>

#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/repair_message.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace terngrad;
  constexpr std::int64_t kMaxElements = 1 << 20;
  std::span<const std::uint8_t> input(data, size);
  const bool repairs = fuzz::take_choice(input) % 2 == 1;
  std::vector<std::uint8_t> content(input.begin(), input.end());
  const auto line = std::ranges::find(content, std::uint8_t{'\n'});
  if (repairs && line != content.end()) fuzz::repair_checksums(std::span(line + 1, content.end()));
  fuzz::survive<DataError>([&] {
    const DecodedFile file = parse_encoded_file(content, "input.tgrd", kMaxElements);
    fuzz::require(file.gradients.workers.size() == 1 && file.gradients.layout.num_elements() <= kMaxElements);
    fuzz::require(file.keys.worker >= 0 && file.keys.worker < file.keys.num_workers);
  });
  return 0;
}

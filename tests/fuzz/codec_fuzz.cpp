// Input: codec and exchange (fuzz_codec.h), kind of tampering, then data. Kinds 0 to 2: tampered_message() of
// fuzz_exchange.h replaces a message of an exchange. Kind 3: the data is one tensor's payload.
#include "tests/fuzz/fuzz_codec.h"

#include <cmath>
#include <vector>

#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace terngrad;
  std::span input(data, size);
  const std::uint8_t codec = fuzz::take_choice(input);
  const fuzz::CodecChoice choice = fuzz::codec_choice(codec, fuzz::take_choice(input));
  const int tampering = fuzz::take_choice(input) % 4;
  fuzz::survive<CommunicationError>([&] {
    if (tampering == 3) return fuzz::read_codes(choice, input);
    std::vector<float> mean;
    fuzz::tampered_exchange(
        choice,
        [&](std::span<const std::uint8_t> message) { return fuzz::tampered_message(message, input, tampering); }, mean);
    for (const float value : mean) fuzz::require(std::isfinite(value));
  });
  return 0;
}

// Input: exchange (fuzz_exchange.h), kind of tampering, then data for tampered_message().
#include "tests/fuzz/fuzz_exchange.h"

#include <cmath>
#include <vector>

#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace terngrad;
  std::span input(data, size);
  const fuzz::ExchangeChoice choice = fuzz::exchange_choice(fuzz::take_choice(input));
  const int tampering = fuzz::take_choice(input) % 3;
  fuzz::survive<CommunicationError>([&] {
    std::vector<float> mean;
    fuzz::tampered(
        choice,
        [&](std::span<const std::uint8_t> message) { return fuzz::tampered_message(message, input, tampering); }, mean);
    for (const float value : mean) fuzz::require(std::isfinite(value));
  });
  return 0;
}

// Shared by all fuzz targets. A target must survive every input: it may refuse one only by its documented exceptions,
// so any other exception, sanitizer report, timeout or use of gigabytes is a finding.
#pragma once

#include "kernels/runtime/errors.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

/// Entry point of libFuzzer, defined by each target.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace terngrad::fuzz {

/// Runs `parse` and swallows exceptions of type `Refusal`.
template <class Refusal, class Parse>
void survive(const Parse& parse) {
  try {
    parse();
  } catch (const Refusal&) {
  }
}

/// Aborts, which libFuzzer reports, if a guarantee of the parser does not hold.
inline void require(bool holds) {
  if (!holds) std::abort();
}

/// Removes and returns the first input byte, which selects a variant; 0 if the input is empty.
inline std::uint8_t take_choice(std::span<const std::uint8_t>& input) {
  if (input.empty()) return 0;
  const std::uint8_t choice = input[0];
  input = input.subspan(1);
  return choice;
}

}  // namespace terngrad::fuzz

// What the fuzz targets share. A target must survive every input: it may refuse one by the documented exceptions only,
// so any other exception, sanitizer report, time-out or use of gigabytes is a finding.
#pragma once

#include "kernels/runtime/errors.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

/// libFuzzer's entry, which a target defines.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace terngrad::fuzz {

/// Runs `parse`; a refusal by `Refusal` is a fine way out.
template <class Refusal, class Parse>
void survive(const Parse& parse) {
  try {
    parse();
  } catch (const Refusal&) {
  }
}

/// Ends the process, which libFuzzer reports, unless a promise of the parser holds.
inline void require(bool holds) {
  if (!holds) std::abort();
}

/// Takes the first byte of an input, by which targets choose between variants; 0 if there is none.
inline std::uint8_t take_choice(std::span<const std::uint8_t>& input) {
  if (input.empty()) return 0;
  const std::uint8_t choice = input[0];
  input = input.subspan(1);
  return choice;
}

}  // namespace terngrad::fuzz

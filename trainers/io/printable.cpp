#include "trainers/io/printable.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

namespace terngrad {
namespace {

std::uint8_t byte_at(std::string_view text, std::size_t i) { return static_cast<std::uint8_t>(text[i]); }

/// Length in bytes of the UTF-8 sequence that begins with `lead`; 0 if there is none (0xC0, 0xC1: overlong ASCII).
std::size_t length_by_lead(std::uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

/// Bytes of the first character of `text`; 0 if it is not UTF-8: truncated, overlong, a surrogate, or beyond U+10FFFF.
std::size_t character_length(std::string_view text) {
  const std::uint8_t lead = byte_at(text, 0);
  const std::size_t length = length_by_lead(lead);
  if (length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte_at(text, i) & 0xC0) != 0x80) return 0;
  }
  if (length < 3) return length;
  const std::uint8_t second = byte_at(text, 1);
  if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F)) return 0;
  if ((lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F)) return 0;
  return length;
}

bool is_control(std::string_view character) {
  const std::uint8_t lead = byte_at(character, 0);
  return lead < 0x20 || lead == 0x7F || (lead == 0xC2 && byte_at(character, 1) < 0xA0);
}

std::string escaped(std::string_view bytes) {
  if (bytes == "\n") return "\\n";
  if (bytes == "\r") return "\\r";
  if (bytes == "\t") return "\\t";
  std::string text;
  for (const char byte : bytes) text += fmt::format("\\x{:02x}", static_cast<std::uint8_t>(byte));
  return text;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    const std::string_view character = text.substr(0, length == 0 ? 1 : length);
    result += length == 0 || is_control(character) ? escaped(character) : std::string(character);
    text.remove_prefix(character.size());
  }
  return result;
}

}  // namespace terngrad

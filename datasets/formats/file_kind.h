// looks_like: names the kind of a file that is not of the expected kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace terngrad {

/// Number of first bytes that tell every kind.
inline constexpr std::size_t kFileKindBytes = 300;

/// The kind of a file by its first bytes, to end a message: "; it looks like an HTML page". Empty for an unknown kind.
/// @param beginning  the first kFileKindBytes or more, or the whole file
std::string looks_like(std::span<const std::uint8_t> beginning);

}  // namespace terngrad

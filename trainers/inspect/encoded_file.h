// .tgrd files: an encoded gradient by itself, with all that is needed to decode it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "trainers/inspect/gradient_file.h"

namespace terngrad {

/// What a gradient is encoded with.
struct EncodedFileKeys {
  std::string codec;  // as make_codec takes it
  int num_workers = 1;
  std::uint64_t seed = 1;  // of draws
  std::uint64_t step = 0;  // likewise, below 2^40
  int worker = 0;          // likewise, and the sender
};

/// Encodes one worker's gradient: one line of JSON, filled with blanks so that what follows begins at a multiple of 8
/// bytes, then the worker's message of kind 2, with the seed as its run id (docs/wire-format.md, "Encoded gradients in
/// files").
/// @param gradients  of all of keys.num_workers workers, who then share scalers where the codec does; or of one, who
///                   measures alone
/// @throws InvalidArgument for keys that contradict each other or a spec that make_codec refuses, DataError naming the
/// tensor, for numbers that are too large for the codec
std::string encode_file(const GradientFile& gradients, const EncodedFileKeys& keys);

/// What such a file says of itself, and its gradient.
struct DecodedFile {
  EncodedFileKeys keys;
  GradientFile gradients;  // of one worker
};

/// @throws DataError in one line that names the file and the field, for a file that is missing, truncated, damaged or
/// foreign: every field is checked, and the message as read_gradient_message does
DecodedFile decode_file(const std::filesystem::path& path);
/// The same for a file's content. @param source  what errors call it
/// @param max_elements  that are taken: a few bytes may stand for many zeros
DecodedFile parse_encoded_file(std::span<const std::uint8_t> content, const std::string& source,
                               std::int64_t max_elements = kMaxFileElements);

}  // namespace terngrad

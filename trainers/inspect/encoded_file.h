// .tgrd files: an encoded gradient with everything that is needed to decode it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "trainers/inspect/gradient_file.h"

namespace terngrad {

/// Settings that a gradient is encoded with.
struct EncodedFileKeys {
  std::string codec;  // spec for make_codec
  int num_workers = 1;
  std::uint64_t seed = 1;  // seed of draws
  std::uint64_t step = 0;  // step that keys the draws, below 2^40
  int worker = 0;          // worker that keys the draws; also the sender
};

/// Encodes one worker's gradient: a line of JSON, padded with blanks to a multiple of 8 bytes, then the worker's
/// message of kind 2 with the seed as run id (docs/wire-format.md, "Encoded gradients in files").
/// @param gradients  gradients of all keys.num_workers workers, who then share scalers if the codec does; or of one
///                   worker with scalers of its own
/// @throws InvalidArgument for contradictory keys or a spec that make_codec refuses, DataError naming the tensor for
/// values that are too large for the codec
std::string encode_file(const GradientFile& gradients, const EncodedFileKeys& keys);

/// Content of a decoded file.
struct DecodedFile {
  EncodedFileKeys keys;
  GradientFile gradients;  // gradient of one worker
};

/// Reads and verifies a file: every field, and the message as read_gradient_message does.
/// @throws DataError naming the file and the field, in one line, if it is missing, truncated, damaged or foreign
DecodedFile decode_file(const std::filesystem::path& path);
/// The same for a file's content. @param source  name of the file in errors
/// @param max_elements  limit of the decoded size, as a few bytes may encode many zeros
DecodedFile parse_encoded_file(std::span<const std::uint8_t> content, const std::string& source,
                               std::int64_t max_elements = kMaxFileElements);

}  // namespace terngrad

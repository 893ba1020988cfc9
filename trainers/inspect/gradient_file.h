// Gradients in files: what terngrad_codec reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/tensor/layout.h"

namespace terngrad {

/// Most elements of a file, those of all workers together: 8 GiB of float32.
inline constexpr std::int64_t kMaxFileElements = std::int64_t{1} << 31;

/// The gradients of one step, as float32.
struct GradientFile {
  std::string source;                      // the file's path
  Layout layout;                           // of one worker, in the order of the file
  std::vector<Buffer<float>> workers;      // one flat buffer of the layout for each worker
  std::vector<std::string> left_out = {};  // name and type of tensors that are none of gradients: "'steps' (I64)"
};

/// Reads, by the file's name,
///   .npy          one tensor "tensor": fp16, fp32 or fp64, little-endian, in C order
///   .safetensors  tensors of F16, BF16, F32 or F64; those of other types are left out. Where all are called
///                 worker-0000/<name>, worker-0001/<name>, ... and every worker has the same, they are of these
///                 workers; else all are of one
/// fp64 is rounded to the nearest fp32, the others are widened. Takes 4 bytes per element beside the file, whose size
/// is looked at first.
/// @throws DataError in one line that names the file, and the tensor where it is one: another name, a file that is
/// missing, truncated or damaged, no tensor of these types, workers that differ, no elements at all, more than
/// kMaxFileElements, or an element that is NaN, infinite or beyond fp32
GradientFile read_gradient_file(const std::filesystem::path& path);
/// The same for a file's content. @param source  what errors call it; its ending says which format it has
GradientFile parse_gradient_file(std::span<const std::uint8_t> content, const std::string& source);

/// The files of `path`: itself, or of a folder step-<number>.safetensors and .npy in order of their numbers, in the
/// folder or else in its folder gradients/, as a run has it. Each with its number; 1 for a file by itself.
/// @throws DataError if there is none, or two of a number
std::vector<std::pair<std::uint64_t, std::filesystem::path>> list_gradient_files(const std::filesystem::path& path);

}  // namespace terngrad

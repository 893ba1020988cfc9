// GradientFile: reads gradients from files, for terngrad_codec.
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

/// Maximum number of elements of a file, over all workers: 8 GiB of float32.
inline constexpr std::int64_t kMaxFileElements = std::int64_t{1} << 31;

/// The gradients of one step, as float32.
struct GradientFile {
  std::string source;                      // path of the file
  Layout layout;                           // layout of one worker, in the order of the file
  std::vector<Buffer<float>> workers;      // one flat buffer per worker
  std::vector<std::string> left_out = {};  // name and type of skipped tensors: "'steps' (I64)"
};

/// Reads a file, by its name:
///   .npy          one tensor "tensor": fp16, fp32 or fp64, little-endian, in C order
///   .safetensors  tensors of F16, BF16, F32 or F64; other types are skipped. If all are named
///                 worker-0000/<name>, worker-0001/<name>, ... and each worker has the same tensors, there is one
///                 gradient per worker; else a single one
/// fp64 is rounded to the nearest fp32, the others are widened. Needs 4 bytes per element besides the file, whose size
/// is checked first.
/// @throws DataError naming the file (and tensor), in one line, for another file name, a missing, truncated or damaged
/// file, no tensor of these types, workers that differ, no elements, more than kMaxFileElements, or an element that is
/// NaN, infinite or beyond fp32
GradientFile read_gradient_file(const std::filesystem::path& path);
/// The same for a file's content. @param source  name of the file in errors; its suffix selects the format
GradientFile parse_gradient_file(std::span<const std::uint8_t> content, const std::string& source);

/// The files at `path` with their numbers: a single file with number 1, or in a folder (else in its subfolder
/// gradients/, as in a run directory) the files step-<number>.safetensors and .npy, sorted by number.
/// @throws DataError if there is none, or two with the same number
std::vector<std::pair<std::uint64_t, std::filesystem::path>> list_gradient_files(const std::filesystem::path& path);

}  // namespace terngrad

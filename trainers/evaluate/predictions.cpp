#include "trainers/evaluate/predictions.h"

#include <array>
#include <bit>
#include <cstddef>
#include <string>

#include "datasets/formats/npy.h"
#include "trainers/io/atomic_file.h"

namespace terngrad {

static_assert(std::endian::native == std::endian::little, "predictions are written as they lie in memory");

void write_predictions(const std::filesystem::path& path, std::span<const std::int32_t> predicted) {
  const std::string beginning =
      npy_beginning(NpyKind::kSigned, sizeof(std::int32_t), {static_cast<std::int64_t>(predicted.size())});
  const std::array<std::span<const std::byte>, 2> parts = {std::as_bytes(std::span(beginning)),
                                                           std::as_bytes(predicted)};
  write_file_atomically(path, parts);
}

}  // namespace terngrad

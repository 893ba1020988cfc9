// Helpers for tests of readers: temporary folder, compression, message of an expected DataError.
#pragma once

#include "kernels/runtime/errors.h"

#include <gtest/gtest.h>
#include <lzma.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <stdlib.h>

namespace terngrad {

using Bytes = std::vector<std::uint8_t>;

/// A temporary folder, removed by the destructor.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "terngrad_test_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a temporary folder");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Writes a file and returns its path.
  std::filesystem::path write(const std::string& name, const Bytes& content) const {
    std::ofstream stream(path_ / name, std::ios::binary);
    stream.write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
    if (!stream.flush()) throw std::runtime_error("cannot write " + name);
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

/// Bytes without a short period.
inline Bytes counting_bytes(std::size_t length) {
  Bytes result(length);
  for (std::size_t i = 0; i < length; ++i) result[i] = static_cast<std::uint8_t>(i * 7 + i / 256 * 13);
  return result;
}

/// One gzip member.
inline Bytes gzip(const Bytes& content) {
  z_stream z{};
  if (deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) throw std::runtime_error("deflateInit2");
  Bytes packed(deflateBound(&z, content.size()));
  z.next_in = const_cast<Bytef*>(content.data());
  z.avail_in = static_cast<uInt>(content.size());
  z.next_out = packed.data();
  z.avail_out = static_cast<uInt>(packed.size());
  const int status = deflate(&z, Z_FINISH);
  packed.resize(z.total_out);
  deflateEnd(&z);
  if (status != Z_STREAM_END) throw std::runtime_error("deflate");
  return packed;
}

/// One xz stream.
inline Bytes xz(const Bytes& content, std::uint32_t preset = 1, lzma_check check = LZMA_CHECK_CRC64) {
  Bytes packed(lzma_stream_buffer_bound(content.size()));
  std::size_t packed_bytes = 0;
  if (lzma_easy_buffer_encode(preset, check, nullptr, content.data(), content.size(), packed.data(), &packed_bytes,
                              packed.size()) != LZMA_OK) {
    throw std::runtime_error("lzma_easy_buffer_encode");
  }
  packed.resize(packed_bytes);
  return packed;
}

/// Message of the DataError that `body` throws; fails the test if it throws none.
template <class Body>
std::string data_error(Body&& body) {
  try {
    body();
  } catch (const DataError& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected a DataError";
  return "";
}

}  // namespace terngrad

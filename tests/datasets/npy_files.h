// .npy files for tests of readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/datasets/data_files.h"

namespace terngrad {

/// Header text, e.g. "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }".
inline std::string npy_header(const std::string& type, const std::string& shape) {
  return "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
}

/// Magic, version, length of the header, header with a newline, data.
inline Bytes npy_file(std::string header, const Bytes& data, int version = 1) {
  header += '\n';
  Bytes bytes = {0x93, 'N', 'U', 'M', 'P', 'Y', static_cast<std::uint8_t>(version), 0};
  for (std::size_t i = 0; i < (version == 1 ? 2u : 4u); ++i) {
    bytes.push_back(static_cast<std::uint8_t>(header.size() >> (8 * i)));
  }
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

}  // namespace terngrad

#include "datasets/formats/file_kind.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <string_view>

namespace terngrad {
namespace {

using std::string_view_literals::operator""sv;

struct FileKind {
  std::string_view magic;
  std::string_view name;
  std::size_t offset = 0;  // of the magic
};

constexpr std::array kFileKinds = {
    FileKind{"\0\0\x08\x01"sv, "labels in IDX format, as MNIST's"},
    FileKind{"\0\0\x08\x03"sv, "images in IDX format, as MNIST's"},
    FileKind{"\0\0\x0c\x02"sv, "the labels of QMNIST; MNIST's are expected, one byte each"},
    FileKind{"\x1f\x8b"sv, "a gzip file; unpack it first"},
    // A zlib stream with a window of 32 KiB, by its four levels.
    FileKind{"\x78\x01"sv, "zlib data; unpack them first"},
    FileKind{"\x78\x5e"sv, "zlib data; unpack them first"},
    FileKind{"\x78\x9c"sv, "zlib data; unpack them first"},
    FileKind{"\x78\xda"sv, "zlib data; unpack them first"},
    FileKind{"\xfd"
             "7zXZ\0"sv,
             "an xz file; unpack it first"},
    FileKind{"BZh"sv, "a bzip2 file; unpack it first"},
    FileKind{"\x28\xb5\x2f\xfd"sv, "a zstd file; unpack it first"},
    FileKind{"PK\x03\x04"sv, "a zip archive; unpack it first"},
    FileKind{"ustar"sv, "a tar archive; unpack it first", 257},
    FileKind{"version https://git-lfs"sv, "a pointer of Git LFS; git lfs pull fetches the file itself"},
    FileKind{"\x93NUMPY"sv, "an array of NumPy (.npy)"},
    FileKind{"\x89HDF\r\n"sv, "an HDF5 file"},
    FileKind{"PAR1"sv, "a Parquet file"},
    FileKind{"\x80\x02"sv, "a pickle of Python"},
    FileKind{"\x80\x03"sv, "a pickle of Python"},
    FileKind{"\x80\x04"sv, "a pickle of Python"},
    FileKind{"\x80\x05"sv, "a pickle of Python"},
    FileKind{"\xff\xd8\xff"sv, "a JPEG image"},
    FileKind{"\x89PNG"sv, "a PNG image"},
    FileKind{"GIF8"sv, "a GIF image"},
    FileKind{"BM"sv, "a BMP image"},
    FileKind{"II*\0"sv, "a TIFF image"},
    FileKind{"MM\0*"sv, "a TIFF image"},
    FileKind{"WEBP"sv, "a WebP image", 8},
    FileKind{"ftypavif"sv, "an AVIF image", 4},
    FileKind{"ftyphei"sv, "a HEIC image", 4},
};

/// The first characters that are no white space, in lower case.
std::string first_word(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  std::string word(text.substr(begin, 16));
  std::ranges::transform(word, word.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return word;
}

std::string_view kind_of(std::string_view text) {
  for (const FileKind& kind : kFileKinds) {
    if (text.substr(std::min(kind.offset, text.size())).starts_with(kind.magic)) return kind.name;
  }
  const std::string word = first_word(text);
  if (word.starts_with("<!doctype html") || word.starts_with("<html")) {
    return "an HTML page, as servers answer with where a download fails";
  }
  if (word.starts_with("<?xml")) return "an XML document, as servers answer with where a download fails";
  return "";
}

}  // namespace

std::string looks_like(std::span<const std::uint8_t> beginning) {
  const std::string_view kind = kind_of({reinterpret_cast<const char*>(beginning.data()), beginning.size()});
  return kind.empty() ? "" : "; it looks like " + std::string(kind);
}

}  // namespace terngrad

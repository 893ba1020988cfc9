#include "datasets/formats/compressed_file.h"

#include "datasets/formats/file_kind.h"
#include "datasets/formats/input_file.h"
#include "kernels/runtime/errors.h"

#include <lzma.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

namespace terngrad {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// Arguments of an unpacker besides the bytes.
struct Limits {
  std::string file;  // for messages
  std::size_t max_bytes = 0;
  bool only_beginning = false;  // stop after max_bytes instead of rejecting longer content
  bool is_told = false;         // max_bytes comes from the content's header
};

[[noreturn]] void throw_too_large(const Limits& limits) {
  if (limits.is_told) {
    TERNGRAD_THROW(DataError, "'", limits.file, "' has trailing bytes: its header says ", limits.max_bytes,
                   " bytes, and there are more");
  }
  TERNGRAD_THROW(DataError, "'", limits.file, "' holds more than the ", limits.max_bytes, " bytes accepted here");
}

bool is_enough(std::size_t content_bytes, const Limits& limits) {
  return limits.only_beginning && content_bytes >= limits.max_bytes;
}

/// Rejects content that is too long, and frees unused capacity, because data sets keep their files in memory.
void finish(Bytes& content, const Limits& limits) {
  if (is_enough(content.size(), limits)) content.resize(limits.max_bytes);
  if (content.size() > limits.max_bytes) throw_too_large(limits);
  content.shrink_to_fit();
}

/// Enlarges full `content`, up to one byte more than accepted, so that the end of content of exactly max_bytes is
/// reached.
void grow(Bytes& content, std::size_t packed_bytes, const Limits& limits) {
  if (content.size() > limits.max_bytes) throw_too_large(limits);
  content.resize(std::min(limits.max_bytes + 1, std::max(content.size() * 2, packed_bytes + packed_bytes / 2 + 4096)));
}

/// RAII wrapper of a zlib stream.
struct InflateStream {
  InflateStream() = default;
  ~InflateStream() { inflateEnd(&z); }
  InflateStream(const InflateStream&) = delete;
  InflateStream& operator=(const InflateStream&) = delete;
  z_stream z{};
};

/// Unpacked content: the first `num_bytes` of `room`, which is kept from member to member, so that many small members
/// cost no more than a large one.
struct Unpacked {
  Bytes room;
  std::size_t num_bytes = 0;
};

/// Unpacks the gzip member at `position` of the file `packed`, appends it to `content` and returns its end.
/// @param stream  initialized, and reset after the previous member
std::size_t unpack_gzip_member(std::span<const std::uint8_t> packed, std::size_t position, const Limits& limits,
                               InflateStream& stream, Unpacked& content) {
  constexpr std::size_t kMaxPiece = std::numeric_limits<uInt>::max();
  int status = Z_OK;
  while (status != Z_STREAM_END && !is_enough(content.num_bytes, limits)) {
    if (content.num_bytes == content.room.size()) grow(content.room, packed.size(), limits);
    const std::size_t input = std::min(packed.size() - position, kMaxPiece);
    const std::size_t output = std::min(content.room.size() - content.num_bytes, kMaxPiece);
    stream.z.next_in = const_cast<Bytef*>(packed.data() + position);
    stream.z.avail_in = static_cast<uInt>(input);
    stream.z.next_out = content.room.data() + content.num_bytes;
    stream.z.avail_out = static_cast<uInt>(output);
    status = inflate(&stream.z, Z_NO_FLUSH);
    const std::size_t taken = input - stream.z.avail_in;
    const std::size_t given = output - stream.z.avail_out;
    position += taken;
    content.num_bytes += given;
    if (status == Z_BUF_ERROR || (status == Z_OK && taken == 0 && given == 0)) {
      TERNGRAD_THROW(DataError, "'", limits.file, "' is truncated: its gzip data end after ", packed.size(),
                     " bytes, before the end of the stream");
    }
    if (status != Z_OK && status != Z_STREAM_END) {
      TERNGRAD_THROW(DataError, "'", limits.file,
                     "' is not intact gzip data: ", stream.z.msg ? stream.z.msg : "zlib error", " near byte ",
                     position);
    }
  }
  if (content.num_bytes > limits.max_bytes && !limits.only_beginning) throw_too_large(limits);
  return position;
}

/// Rejects bytes after a member that are not the beginning of another.
void require_gzip_member(std::span<const std::uint8_t> packed, std::size_t position, const Limits& limits) {
  constexpr std::array<std::uint8_t, 2> kMagic = {0x1f, 0x8b};
  const std::span<const std::uint8_t> rest = packed.subspan(position);
  // A single byte may be the beginning of a truncated member.
  if (std::equal(rest.begin(), rest.begin() + std::min<std::ptrdiff_t>(2, std::ssize(rest)), kMagic.begin())) return;
  TERNGRAD_THROW(DataError, "'", limits.file, "' has trailing bytes: its gzip data end at byte ", position, " of ",
                 packed.size(), ", and what follows is not gzip data");
}

Bytes unpack_gzip(std::span<const std::uint8_t> packed, const Limits& limits) {
  constexpr int kGzipWindow = 15 + 16;  // maximum window; + 16: require a gzip header and trailer
  if (packed.empty()) TERNGRAD_THROW(DataError, "'", limits.file, "' is empty, expected gzip data");
  InflateStream stream;
  if (inflateInit2(&stream.z, kGzipWindow) != Z_OK) {
    TERNGRAD_THROW(DataError, "'", limits.file,
                   "': zlib cannot start: ", stream.z.msg ? stream.z.msg : "out of memory");
  }
  Unpacked content;
  for (std::size_t position = 0; position < packed.size() && !is_enough(content.num_bytes, limits);) {
    if (position > 0) require_gzip_member(packed, position, limits);
    position = unpack_gzip_member(packed, position, limits, stream, content);
    inflateReset(&stream.z);
  }
  content.room.resize(content.num_bytes);
  finish(content.room, limits);
  return std::move(content.room);
}

/// Memory limit for unpacking a .xz file, besides its content: four times the need of xz's strongest preset.
constexpr std::uint64_t kXzMemoryBytes = std::uint64_t{256} << 20;

/// RAII wrapper of a liblzma stream.
struct XzStream {
  XzStream() = default;
  ~XzStream() { lzma_end(&z); }
  XzStream(const XzStream&) = delete;
  XzStream& operator=(const XzStream&) = delete;
  lzma_stream z = LZMA_STREAM_INIT;
};

[[noreturn]] void throw_xz_error(lzma_ret status, std::uint64_t position, std::size_t packed_bytes,
                                 const Limits& limits) {
  switch (status) {
    case LZMA_BUF_ERROR:
      TERNGRAD_THROW(DataError, "'", limits.file, "' is truncated: its xz data end after ", packed_bytes,
                     " bytes, before the end of the stream");
    case LZMA_FORMAT_ERROR:
      TERNGRAD_THROW(DataError, "'", limits.file, "' is not xz data");
    case LZMA_MEMLIMIT_ERROR:
      TERNGRAD_THROW(DataError, "'", limits.file, "' needs more than the ", kXzMemoryBytes,
                     " bytes of memory accepted here to be unpacked");
    case LZMA_NO_CHECK:
      TERNGRAD_THROW(DataError, "'", limits.file, "' has no checksum; pack it with xz --check=crc64");
    case LZMA_MEM_ERROR:
      TERNGRAD_THROW(DataError, "'", limits.file, "' cannot be unpacked: out of memory");
    case LZMA_UNSUPPORTED_CHECK:
    case LZMA_OPTIONS_ERROR:
      TERNGRAD_THROW(DataError, "'", limits.file, "' uses a filter or check that this liblzma does not know");
    case LZMA_DATA_ERROR:
      TERNGRAD_THROW(DataError, "'", limits.file,
                     "' is not intact xz data: damaged, or followed by other bytes, near byte ", position, " of ",
                     packed_bytes);
    default:
      TERNGRAD_THROW(DataError, "'", limits.file, "' cannot be unpacked: liblzma does not work here (its error ",
                     int{status}, ") near byte ", position, " of ", packed_bytes);
  }
}

Bytes unpack_xz(std::span<const std::uint8_t> packed, const Limits& limits) {
  if (packed.empty()) TERNGRAD_THROW(DataError, "'", limits.file, "' is empty, expected xz data");
  XzStream stream;
  // Missing and unsupported checksums are errors, so that success means verified.
  constexpr std::uint32_t kFlags = LZMA_CONCATENATED | LZMA_TELL_NO_CHECK | LZMA_TELL_UNSUPPORTED_CHECK;
  lzma_ret status = lzma_stream_decoder(&stream.z, kXzMemoryBytes, kFlags);
  if (status != LZMA_OK) throw_xz_error(status, 0, packed.size(), limits);
  Bytes content;
  stream.z.next_in = packed.data();
  stream.z.avail_in = packed.size();
  while (status != LZMA_STREAM_END && !is_enough(static_cast<std::size_t>(stream.z.total_out), limits)) {
    const auto content_bytes = static_cast<std::size_t>(stream.z.total_out);
    if (content_bytes == content.size()) grow(content, packed.size(), limits);
    stream.z.next_out = content.data() + content_bytes;
    stream.z.avail_out = content.size() - content_bytes;
    status = lzma_code(&stream.z, LZMA_FINISH);
    if (status != LZMA_OK && status != LZMA_STREAM_END) {
      throw_xz_error(status, stream.z.total_in, packed.size(), limits);
    }
  }
  content.resize(static_cast<std::size_t>(stream.z.total_out));
  finish(content, limits);
  return content;
}

/// One compressed format. A new one takes a function and a line here.
struct CompressedFormat {
  const char* suffix;
  std::string_view magic;
  Bytes (*unpack)(std::span<const std::uint8_t> packed, const Limits& limits);
};
using std::string_view_literals::operator""sv;
constexpr std::array kCompressedFormats = {CompressedFormat{".gz", "\x1f\x8b"sv, unpack_gzip},
                                           CompressedFormat{".xz",
                                                            "\xfd"
                                                            "7zXZ\0"sv,
                                                            unpack_xz}};

/// The compressed format of a file by its first bytes, or by its suffix, since a damaged file has other bytes; nullptr
/// for plain content. A suffix does not count for plain arrays, which some browsers store under the name of the packed
/// file.
/// @param content  the first kFileKindBytes or more, or the whole file
/// @throws DataError for a known kind of file that is none of these
const CompressedFormat* find_format(const std::filesystem::path& path, std::span<const std::uint8_t> content) {
  const std::string_view bytes(reinterpret_cast<const char*>(content.data()), content.size());
  for (const CompressedFormat& format : kCompressedFormats) {
    if (bytes.starts_with(format.magic)) return &format;
  }
  if (bytes.starts_with("\0\0\x08"sv) || bytes.starts_with("\x93NUMPY")) return nullptr;
  for (const CompressedFormat& format : kCompressedFormats) {
    if (path.extension() != format.suffix) continue;
    const std::string kind = looks_like(content);
    if (kind.empty()) return &format;
    TERNGRAD_THROW(DataError, "'", path.string(), "' is not packed as its name says", kind);
  }
  return nullptr;
}

}  // namespace

std::vector<std::string> compressed_suffixes() {
  std::vector<std::string> result;
  result.reserve(std::size(kCompressedFormats));
  for (const CompressedFormat& format : kCompressedFormats) result.emplace_back(format.suffix);
  return result;
}

std::vector<std::uint8_t> unpack_data(const std::filesystem::path& path, std::vector<std::uint8_t> content,
                                      std::size_t max_bytes) {
  if (const CompressedFormat* format = find_format(path, content))
    return format->unpack(content, {path.string(), max_bytes});
  if (content.size() > max_bytes) throw_too_large({path.string(), max_bytes});
  return content;
}

std::vector<std::uint8_t> read_data_file(const std::filesystem::path& path, std::size_t max_bytes) {
  const InputFile file(path);
  if (file.num_bytes() > max_bytes) throw_too_large({.file = path.string(), .max_bytes = max_bytes});
  return unpack_data(path, file.read_all(), max_bytes);
}

std::vector<std::uint8_t> read_beginning_of_data(const std::filesystem::path& path, std::size_t num_bytes) {
  const InputFile file(path);
  std::vector<std::uint8_t> beginning = file.read_beginning(std::max(num_bytes, kFileKindBytes));
  const CompressedFormat* format = find_format(path, beginning);
  if (format == nullptr) {
    beginning.resize(std::min(num_bytes, beginning.size()));
    return beginning;
  }
  // May need all packed bytes, which are fewer than the content.
  return format->unpack(file.read_all(), {.file = path.string(), .max_bytes = num_bytes, .only_beginning = true});
}

std::vector<std::uint8_t> read_sized_data_file(const std::filesystem::path& path, std::size_t header_bytes,
                                               const ContentBytes& content_bytes, std::size_t max_bytes) {
  const std::string name = path.string();
  const InputFile file(path);
  const std::vector<std::uint8_t> beginning = file.read_beginning(std::max(header_bytes, kFileKindBytes));
  const CompressedFormat* format = find_format(path, beginning);
  if (format == nullptr) {
    const std::uint64_t told = content_bytes(name, beginning);
    if (file.num_bytes() > told) {
      TERNGRAD_THROW(DataError, "'", name, "' has trailing bytes: its header says ", told, " bytes, found ",
                     file.num_bytes());
    }
    if (file.num_bytes() > max_bytes) throw_too_large({.file = name, .max_bytes = max_bytes});
    return file.read_all();
  }
  if (file.num_bytes() > max_bytes) throw_too_large({.file = name, .max_bytes = max_bytes});
  const Bytes packed = file.read_all();
  const std::uint64_t told =
      content_bytes(name, format->unpack(packed, {.file = name, .max_bytes = header_bytes, .only_beginning = true}));
  const bool is_told = told <= max_bytes;
  return format->unpack(
      packed, {.file = name, .max_bytes = is_told ? static_cast<std::size_t>(told) : max_bytes, .is_told = is_told});
}

std::filesystem::path find_data_file(const std::filesystem::path& folder, const std::string& name,
                                     const std::string& other_name) {
  std::string looked_for;
  for (const std::string& plain : {name, other_name}) {
    if (plain.empty()) continue;
    std::vector<std::string> candidates = {plain};
    for (const std::string& suffix : compressed_suffixes()) candidates.push_back(plain + suffix);
    for (const std::string& candidate : candidates) {
      if (path_exists(folder / candidate) && !is_folder(folder / candidate)) return folder / candidate;
      looked_for += (looked_for.empty() ? "" : " or ") + candidate;
    }
  }
  if (!is_folder(folder)) TERNGRAD_THROW(MissingFileError, "there is no folder '", folder.string(), "'");
  TERNGRAD_THROW(MissingFileError, "no ", looked_for, " in folder '", folder.string(), "'");
}

}  // namespace terngrad

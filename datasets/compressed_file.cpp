#include "datasets/compressed_file.h"

#include "kernels/errors.h"

#include <lzma.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <span>
#include <system_error>
#include <utility>

namespace terngrad {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// What an unpacker needs to know besides the bytes.
struct Limits {
  std::string file;  // for messages
  std::size_t max_bytes = 0;
  bool only_beginning = false;  // unpack max_bytes and leave the rest, instead of refusing content that has more
};

[[noreturn]] void throw_too_large(const Limits& limits) {
  TERNGRAD_THROW(DataError, "'", limits.file, "' holds more than the ", limits.max_bytes, " bytes accepted here");
}

bool is_enough(std::size_t content_bytes, const Limits& limits) {
  return limits.only_beginning && content_bytes >= limits.max_bytes;
}

/// Refuses too long content and drops the room behind it. A data set keeps its files, so the room is given back.
void finish(Bytes& content, const Limits& limits) {
  if (is_enough(content.size(), limits)) content.resize(limits.max_bytes);
  if (content.size() > limits.max_bytes) throw_too_large(limits);
  content.shrink_to_fit();
}

/// Makes room behind full `content`. One byte more than accepted may be written, so that content of exactly max_bytes
/// still reaches its end.
void grow(Bytes& content, std::size_t packed_bytes, const Limits& limits) {
  if (content.size() > limits.max_bytes) throw_too_large(limits);
  content.resize(std::min(limits.max_bytes + 1, std::max(content.size() * 2, packed_bytes + packed_bytes / 2 + 4096)));
}

/// Ends a zlib stream on every way out.
struct InflateStream {
  InflateStream() = default;
  ~InflateStream() { inflateEnd(&z); }
  InflateStream(const InflateStream&) = delete;
  InflateStream& operator=(const InflateStream&) = delete;
  z_stream z{};
};

/// What has been unpacked: the first `num_bytes` of `room`. The room stays as it is from member to member, so that many
/// small ones cost no more than a large one.
struct Unpacked {
  Bytes room;
  std::size_t num_bytes = 0;
};

/// Unpacks the gzip member at the front of `packed`, appends it to `content` and returns its packed length.
/// @param stream  begun, and reset since the member before
std::size_t unpack_gzip_member(std::span<const std::uint8_t> packed, const Limits& limits, InflateStream& stream,
                               Unpacked& content) {
  constexpr std::size_t kMaxPiece = std::numeric_limits<uInt>::max();
  std::size_t position = 0;
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

Bytes unpack_gzip(std::span<const std::uint8_t> packed, const Limits& limits) {
  constexpr int kGzipWindow = 15 + 16;  // the largest window; 16 = a gzip header and trailer are required
  if (packed.empty()) TERNGRAD_THROW(DataError, "'", limits.file, "' is empty, expected gzip data");
  InflateStream stream;
  if (inflateInit2(&stream.z, kGzipWindow) != Z_OK) {
    TERNGRAD_THROW(DataError, "'", limits.file,
                   "': zlib cannot start: ", stream.z.msg ? stream.z.msg : "out of memory");
  }
  Unpacked content;
  while (!packed.empty() && !is_enough(content.num_bytes, limits)) {
    packed = packed.subspan(unpack_gzip_member(packed, limits, stream, content));
    inflateReset(&stream.z);
  }
  content.room.resize(content.num_bytes);
  finish(content.room, limits);
  return std::move(content.room);
}

/// Memory that unpacking one .xz file may take besides its content: four times what the strongest preset of xz needs.
constexpr std::uint64_t kXzMemoryBytes = std::uint64_t{256} << 20;

/// Ends a liblzma stream on every way out.
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
    default:
      TERNGRAD_THROW(DataError, "'", limits.file, "' is not intact xz data: liblzma error ", int{status}, " near byte ",
                     position);
  }
}

Bytes unpack_xz(std::span<const std::uint8_t> packed, const Limits& limits) {
  if (packed.empty()) TERNGRAD_THROW(DataError, "'", limits.file, "' is empty, expected xz data");
  XzStream stream;
  // No check and one that cannot be verified are errors, so intact means verified.
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

/// One compressed format. A new one is a function and a line here.
struct CompressedFormat {
  const char* suffix;
  Bytes (*unpack)(std::span<const std::uint8_t> packed, const Limits& limits);
};
constexpr std::array kFormats = {CompressedFormat{".gz", unpack_gzip}, CompressedFormat{".xz", unpack_xz}};

const CompressedFormat* find_format(const std::filesystem::path& path) {
  for (const CompressedFormat& format : kFormats) {
    if (path.extension() == format.suffix) return &format;
  }
  return nullptr;
}

/// The file as it is, or its first max_bytes if that is enough.
Bytes read_raw(const std::filesystem::path& path, std::size_t max_bytes, bool only_beginning = false) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) TERNGRAD_THROW(DataError, "'", path.string(), "' does not exist");
  if (!std::filesystem::is_regular_file(status)) TERNGRAD_THROW(DataError, "'", path.string(), "' is not a file");
  std::uintmax_t file_bytes = std::filesystem::file_size(path, error);
  if (error) TERNGRAD_THROW(DataError, "'", path.string(), "' cannot be read: ", error.message());
  if (file_bytes > max_bytes && !only_beginning) throw_too_large({path.string(), max_bytes});
  file_bytes = std::min<std::uintmax_t>(file_bytes, max_bytes);
  std::ifstream stream(path, std::ios::binary);
  if (!stream) TERNGRAD_THROW(DataError, "'", path.string(), "' cannot be opened for reading");
  Bytes content(static_cast<std::size_t>(file_bytes));
  stream.read(reinterpret_cast<char*>(content.data()), static_cast<std::streamsize>(content.size()));
  if (static_cast<std::uintmax_t>(stream.gcount()) != file_bytes) {
    TERNGRAD_THROW(DataError, "'", path.string(), "' cannot be read: got ", stream.gcount(), " of ", file_bytes,
                   " bytes");
  }
  return content;
}

}  // namespace

std::vector<std::string> compressed_suffixes() {
  std::vector<std::string> result;
  result.reserve(std::size(kFormats));
  for (const CompressedFormat& format : kFormats) result.emplace_back(format.suffix);
  return result;
}

std::vector<std::uint8_t> unpack_data(const std::filesystem::path& path, std::vector<std::uint8_t> content,
                                      std::size_t max_bytes) {
  if (const CompressedFormat* format = find_format(path)) return format->unpack(content, {path.string(), max_bytes});
  if (content.size() > max_bytes) throw_too_large({path.string(), max_bytes});
  return content;
}

std::vector<std::uint8_t> read_data_file(const std::filesystem::path& path, std::size_t max_bytes) {
  return unpack_data(path, read_raw(path, max_bytes), max_bytes);
}

std::vector<std::uint8_t> read_beginning_of_data(const std::filesystem::path& path, std::size_t num_bytes) {
  const CompressedFormat* format = find_format(path);
  if (format == nullptr) return read_raw(path, num_bytes, /*only_beginning=*/true);
  // As many packed bytes may be needed as there are; they are fewer than the content.
  return format->unpack(read_raw(path, std::numeric_limits<std::size_t>::max()),
                        {.file = path.string(), .max_bytes = num_bytes, .only_beginning = true});
}

std::filesystem::path find_data_file(const std::filesystem::path& folder, const std::string& name) {
  std::vector<std::string> names = {name};
  for (const std::string& suffix : compressed_suffixes()) names.push_back(name + suffix);
  std::string looked_for;
  for (const std::string& candidate : names) {
    std::error_code error;
    if (std::filesystem::exists(folder / candidate, error)) return folder / candidate;
    looked_for += (looked_for.empty() ? "" : " or ") + candidate;
  }
  TERNGRAD_THROW(DataError, "no ", looked_for, " in folder '", folder.string(), "'");
}

}  // namespace terngrad

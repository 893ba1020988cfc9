#include "datasets/formats/jpeg_image.h"

#include "kernels/runtime/errors.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>

#include <jpeglib.h>

#include <jerror.h>

namespace terngrad {
namespace {

constexpr int kMaxScans = 500;  // limit for progressive images; encoders write about ten
// Minimum columns of a part: libjpeg interpolates subsampled chroma, as in the whole image, only from 3 columns on.
constexpr JDIMENSION kMinColumns = 16;
constexpr int kMaxPadBytes = 64;  // padding between a scan and the next marker, which some encoders write

/// libjpeg's state; errors jump to `jump`. Its destructor runs in a frame that no jump leaves.
struct JpegSession {
  JpegSession();
  ~JpegSession() { jpeg_destroy_decompress(&z); }
  JpegSession(const JpegSession&) = delete;
  JpegSession& operator=(const JpegSession&) = delete;

  jpeg_decompress_struct z{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf jump{};
  const JOCTET* first_byte = nullptr;  // start of the input
  char message[JMSG_LENGTH_MAX] = "";
};

[[noreturn]] void jump_out(JpegSession& session) { std::longjmp(session.jump, 1); }

/// libjpeg's error_exit, which must not return.
void on_error(j_common_ptr z) {
  auto& session = *static_cast<JpegSession*>(z->client_data);
  z->err->format_message(z, session.message);
  jump_out(session);
}

/// True if bytes that libjpeg skipped before a marker are harmless. Before the first scan no pixels are lost; later
/// they may be coded pixels, left over because a flipped bit made libjpeg misread earlier codes. So only a few bytes
/// are accepted, and only if they are padding: all zeros or all ones.
bool is_padding(j_common_ptr z) {
  const auto& image = *reinterpret_cast<j_decompress_ptr>(z);
  if (image.input_scan_number == 0) return true;
  const int count = z->err->msg_parm.i[0];
  if (count > kMaxPadBytes) return false;
  // The skipped bytes end at the current input position; they include those already in the decoder's bit buffer.
  const auto& session = *static_cast<const JpegSession*>(z->client_data);
  const JOCTET* const end = image.src->next_input_byte;
  const JOCTET* const begin = end - std::min<std::ptrdiff_t>(count, end - session.first_byte);
  const bool is_zero = std::all_of(begin, end, [](JOCTET byte) { return byte == 0; });
  return is_zero || std::all_of(begin, end, [](JOCTET byte) { return byte == 0xff; });
}

/// Turns warnings (level -1) about damaged data into errors, since libjpeg would invent the missing pixels. Ignores
/// warnings about unusual but complete files.
void on_message(j_common_ptr z, int level) {
  if (level >= 0) return;
  switch (z->err->msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_BOGUS_ICC:
    case JWRN_JFIF_MAJOR:
      return;
    case JWRN_EXTRANEOUS_DATA:
      if (!is_padding(z)) on_error(z);
      return;
    default:
      on_error(z);
  }
}

void on_progress(j_common_ptr z) {
  if (reinterpret_cast<j_decompress_ptr>(z)->input_scan_number <= kMaxScans) return;
  auto& session = *static_cast<JpegSession*>(z->client_data);
  std::snprintf(session.message, sizeof session.message, "more than %d scans", kMaxScans);
  jump_out(session);
}

JpegSession::JpegSession() {
  z.err = jpeg_std_error(&errors);
  errors.error_exit = on_error;
  errors.emit_message = on_message;
  z.client_data = this;
}

/// Runs `work`, which calls libjpeg. Returns false, with session.message set, after an error of libjpeg, which leaves
/// `work` by a jump: it must not own resources.
template <class Work>
bool run(JpegSession& session, const Work& work) {
  if (setjmp(session.jump) != 0) return false;
  work(session.z);
  return true;
}

[[noreturn]] void throw_damaged(const std::string& file, const JpegSession& session) {
  TERNGRAD_THROW(DataError, "'", file, "': expected an intact JPEG image, found: ", session.message);
}

ImageHeader start(JpegSession& session, const std::string& file, std::span<const std::uint8_t> bytes) {
  session.first_byte = bytes.data();
  const bool ok = run(session, [&](jpeg_decompress_struct& z) {
    jpeg_create_decompress(&z);
    z.progress = &session.progress;
    session.progress.progress_monitor = on_progress;
    jpeg_mem_src(&z, bytes.data(), static_cast<unsigned long>(bytes.size()));
    jpeg_read_header(&z, TRUE);
  });
  if (!ok) throw_damaged(file, session);
  const auto height = std::int64_t{session.z.image_height}, width = std::int64_t{session.z.image_width};
  if (height > kMaxImageSide || width > kMaxImageSide || height * width > kMaxImagePixels) {
    TERNGRAD_THROW(DataError, "'", file, "': expected sides up to ", kMaxImageSide, " and up to ", kMaxImagePixels,
                   " pixels, found ", height, " x ", width);
  }
  return {.height = static_cast<int>(height),
          .width = static_cast<int>(width),
          .is_grey = session.z.jpeg_color_space == JCS_GRAYSCALE};
}

/// Reads the image's rows to `out`, each of `row_bytes`.
bool read_rows(JpegSession& session, J_COLOR_SPACE colours, std::uint8_t* out, std::size_t row_bytes) {
  return run(session, [&](jpeg_decompress_struct& z) {
    z.out_color_space = colours;
    z.dct_method = JDCT_ISLOW;
    jpeg_start_decompress(&z);
    while (z.output_scanline < z.output_height) {
      JSAMPROW row = out + z.output_scanline * row_bytes;
      jpeg_read_scanlines(&z, &row, 1);
    }
    jpeg_finish_decompress(&z);
  });
}

/// Arguments of read_box.
struct BoxRows {
  ImageBox box;
  std::size_t pixel_bytes = 0;
  std::uint8_t* row = nullptr;  // scratch memory for a row of the whole image
  std::uint8_t* out = nullptr;  // [box.height, box.width] pixels
};

/// Reads the rows of a box, but none below it.
bool read_box(JpegSession& session, J_COLOR_SPACE colours, const BoxRows& rows) {
  return run(session, [&](jpeg_decompress_struct& z) {
    z.out_color_space = colours;
    z.dct_method = JDCT_ISLOW;
    jpeg_start_decompress(&z);
    const auto top = static_cast<JDIMENSION>(rows.box.top), left = static_cast<JDIMENSION>(rows.box.left);
    JDIMENSION first_column = 0;
    if (jpeg_has_multiple_scans(&z) == FALSE) {
      JDIMENSION end = std::min(z.output_width, left + static_cast<JDIMENSION>(rows.box.width) + 1);
      first_column = left - std::min(left, JDIMENSION{1});
      if (end - first_column < kMinColumns) {
        end = std::min(z.output_width, first_column + kMinColumns);
        first_column = std::min(first_column, end - std::min(end, kMinColumns));
      }
      JDIMENSION width = end - first_column;
      jpeg_crop_scanline(&z, &first_column, &width);  // moves the first column left to a block boundary
      if (top > 1) jpeg_skip_scanlines(&z, top - 1);
    }
    std::uint8_t* out = rows.out;
    const std::size_t out_bytes = static_cast<std::size_t>(rows.box.width) * rows.pixel_bytes;
    const std::uint8_t* const from = rows.row + (left - first_column) * rows.pixel_bytes;
    while (z.output_scanline < top + static_cast<JDIMENSION>(rows.box.height)) {
      const bool is_inside = z.output_scanline >= top;
      JSAMPROW row = rows.row;
      jpeg_read_scanlines(&z, &row, 1);
      if (!is_inside) continue;
      std::copy_n(from, out_bytes, out);
      out += out_bytes;
    }
  });
}

/// CMYK to RGB: white times (1 - ink) times (1 - black) per channel. Adobe's files store inverted ink.
void cmyk_to_rgb(bool is_inverted, std::vector<std::uint8_t>& pixels) {
  const unsigned flip = is_inverted ? 0u : 255u;
  std::uint8_t* rgb = pixels.data();
  for (std::size_t i = 0; i < pixels.size(); i += 4) {
    const unsigned black = pixels[i + 3] ^ flip;
    for (std::size_t j = 0; j < 3; ++j) {
      *rgb++ = static_cast<std::uint8_t>(((pixels[i + j] ^ flip) * black + 127u) / 255u);
    }
  }
  pixels.resize(pixels.size() / 4 * 3);
}

bool has_inks(const JpegSession& session) {
  return session.z.jpeg_color_space == JCS_CMYK || session.z.jpeg_color_space == JCS_YCCK;
}

}  // namespace

ImageHeader read_jpeg_header(const std::string& file, std::span<const std::uint8_t> bytes) {
  JpegSession session;
  return start(session, file, bytes);
}

DecodedImage decode_jpeg(const std::string& file, std::span<const std::uint8_t> bytes, int channels) {
  TERNGRAD_REQUIRE(channels == 1 || channels == 3, "[decode_jpeg] channels must be 1 or 3, got ", channels);
  JpegSession session;
  const ImageHeader header = start(session, file, bytes);
  TERNGRAD_REQUIRE(channels == 3 || header.is_grey, "[decode_jpeg] 1 channel of '", file, "', which has colours");
  const bool is_cmyk = has_inks(session);
  const int stored_channels = is_cmyk ? 4 : channels;
  DecodedImage image{.height = header.height, .width = header.width, .channels = channels, .pixels = {}};
  const std::size_t row_bytes = static_cast<std::size_t>(header.width) * static_cast<std::size_t>(stored_channels);
  image.pixels.resize(row_bytes * static_cast<std::size_t>(header.height));
  const J_COLOR_SPACE colours = is_cmyk ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  if (!read_rows(session, colours, image.pixels.data(), row_bytes)) throw_damaged(file, session);
  if (is_cmyk) cmyk_to_rgb(session.z.saw_Adobe_marker == TRUE, image.pixels);
  return image;
}

void decode_jpeg_box(const std::string& file, std::span<const std::uint8_t> bytes, const ImageBox& box,
                     DecodedImage& part) {
  JpegSession session;
  const ImageHeader header = start(session, file, bytes);
  check_image_box("decode_jpeg_box", box, header.height, header.width);
  const bool is_cmyk = has_inks(session);
  const std::size_t pixel_bytes = is_cmyk ? 4 : 3;
  thread_local std::vector<std::uint8_t> row;
  row.resize(std::max(row.size(), pixel_bytes * static_cast<std::size_t>(header.width)));
  part.height = box.height;
  part.width = box.width;
  part.channels = 3;
  part.pixels.resize(pixel_bytes * static_cast<std::size_t>(box.height) * static_cast<std::size_t>(box.width));
  const BoxRows rows{.box = box, .pixel_bytes = pixel_bytes, .row = row.data(), .out = part.pixels.data()};
  if (!read_box(session, is_cmyk ? JCS_CMYK : JCS_RGB, rows)) throw_damaged(file, session);
  if (is_cmyk) cmyk_to_rgb(session.z.saw_Adobe_marker == TRUE, part.pixels);
}

}  // namespace terngrad

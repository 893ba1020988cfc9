#include "datasets/formats/jpeg_image.h"

#include "kernels/runtime/errors.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>

#include <jpeglib.h>

#include <jerror.h>

namespace terngrad {
namespace {

constexpr int kMaxScans = 500;    // of a progressive image; encoders write about ten
constexpr int kMaxPadBytes = 64;  // between a scan and the next marker; some encoders pad

/// libjpeg's state, with its errors going to `jump`. Its destructor runs in a frame that no jump leaves.
struct JpegSession {
  JpegSession();
  ~JpegSession() { jpeg_destroy_decompress(&z); }
  JpegSession(const JpegSession&) = delete;
  JpegSession& operator=(const JpegSession&) = delete;

  jpeg_decompress_struct z{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf jump{};
  const JOCTET* first_byte = nullptr;  // of the input
  char message[JMSG_LENGTH_MAX] = "";
};

[[noreturn]] void jump_out(JpegSession& session) { std::longjmp(session.jump, 1); }

/// libjpeg's error_exit, which must not return.
void on_error(j_common_ptr z) {
  auto& session = *static_cast<JpegSession*>(z->client_data);
  z->err->format_message(z, session.message);
  jump_out(session);
}

/// Bytes that libjpeg passed over on its way to a marker. In front of the first scan no pixels get lost; later they may
/// be coded pixels that it could not use: what a flipped bit leaves over, as the codes behind it are taken for others.
/// So only a few pass, and only if they are padding: all zeros or all ones.
bool is_padding(j_common_ptr z) {
  const auto& image = *reinterpret_cast<j_decompress_ptr>(z);
  if (image.input_scan_number == 0) return true;
  const int count = z->err->msg_parm.i[0];
  if (count > kMaxPadBytes) return false;
  // The last of them was taken from the input just now; bits that the decoder had taken before count too.
  const auto& session = *static_cast<const JpegSession*>(z->client_data);
  const JOCTET* const end = image.src->next_input_byte;
  const JOCTET* const begin = end - std::min<std::ptrdiff_t>(count, end - session.first_byte);
  const bool is_zero = std::all_of(begin, end, [](JOCTET byte) { return byte == 0; });
  return is_zero || std::all_of(begin, end, [](JOCTET byte) { return byte == 0xff; });
}

/// Warnings (level -1) of damaged data end the decoding too: libjpeg would make up the missing pixels. Those of odd but
/// whole files do not.
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

/// Runs `work`, which calls libjpeg. False, with session.message set, if libjpeg gave up: then `work` was left by a
/// jump, so it must own nothing.
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

/// Inks to light: what is left of white after cyan, magenta or yellow, and black. Adobe's files store light, not ink.
std::vector<std::uint8_t> cmyk_to_rgb(const std::vector<std::uint8_t>& cmyk, bool is_inverted) {
  std::vector<std::uint8_t> rgb;
  rgb.reserve(cmyk.size() / 4 * 3);
  for (std::size_t i = 0; i < cmyk.size(); i += 4) {
    const unsigned flip = is_inverted ? 0u : 255u;
    const unsigned black = cmyk[i + 3] ^ flip;
    for (std::size_t j = 0; j < 3; ++j) {
      rgb.push_back(static_cast<std::uint8_t>(((cmyk[i + j] ^ flip) * black + 127u) / 255u));
    }
  }
  return rgb;
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
  const bool is_cmyk = session.z.jpeg_color_space == JCS_CMYK || session.z.jpeg_color_space == JCS_YCCK;
  const int stored_channels = is_cmyk ? 4 : channels;
  DecodedImage image{.height = header.height, .width = header.width, .channels = channels, .pixels = {}};
  const std::size_t row_bytes = static_cast<std::size_t>(header.width) * static_cast<std::size_t>(stored_channels);
  image.pixels.resize(row_bytes * static_cast<std::size_t>(header.height));
  const J_COLOR_SPACE colours = is_cmyk ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  if (!read_rows(session, colours, image.pixels.data(), row_bytes)) throw_damaged(file, session);
  if (is_cmyk) image.pixels = cmyk_to_rgb(image.pixels, session.z.saw_Adobe_marker == TRUE);
  return image;
}

}  // namespace terngrad

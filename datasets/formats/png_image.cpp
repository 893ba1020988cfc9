#include "datasets/formats/png_image.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <vector>

#include "kernels/runtime/errors.h"

#include <png.h>

namespace terngrad {
namespace {

/// libpng's state, its input, and its error message. Its destructor runs in a frame that no jump leaves.
struct PngSession {
  PngSession(const std::string& file, std::span<const std::uint8_t> content);
  ~PngSession() { png_destroy_read_struct(&png, &info, nullptr); }
  PngSession(const PngSession&) = delete;
  PngSession& operator=(const PngSession&) = delete;

  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::uint8_t> rest;
  char message[128] = "";
};

void on_error(png_structp png, png_const_charp message) {
  auto& session = *static_cast<PngSession*>(png_get_error_ptr(png));
  std::snprintf(session.message, sizeof session.message, "%s", message);
  png_longjmp(png, 1);
}

/// Ignores warnings, which concern chunks without pixels: damaged pixels are errors.
void on_warning(png_structp, png_const_charp) {}

void read_input(png_structp png, png_bytep to, std::size_t count) {
  auto& session = *static_cast<PngSession*>(png_get_io_ptr(png));
  if (count > session.rest.size()) png_error(png, "the file ends too early");
  std::copy_n(session.rest.data(), count, to);
  session.rest = session.rest.subspan(count);
}

PngSession::PngSession(const std::string& file, std::span<const std::uint8_t> content) : rest(content) {
  png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
  if (png != nullptr) info = png_create_info_struct(png);
  if (info == nullptr) {
    png_destroy_read_struct(&png, nullptr, nullptr);
    TERNGRAD_THROW(DataError, "'", file, "' cannot be decoded: libpng cannot start");
  }
}

/// Runs `work`, which calls libpng. Returns false, with session.message set, after an error of libpng, which leaves
/// `work` by a jump: it must not own resources.
template <class Work>
bool run(PngSession& session, const Work& work) {
  if (setjmp(png_jmpbuf(session.png)) != 0) return false;
  work(session.png, session.info);
  return true;
}

[[noreturn]] void throw_damaged(const std::string& file, const PngSession& session) {
  TERNGRAD_THROW(DataError, "'", file, "': expected an intact PNG image, found: ", session.message);
}

ImageHeader start(PngSession& session, const std::string& file) {
  const bool ok = run(session, [&](png_structp png, png_infop info) {
    png_set_read_fn(png, &session, read_input);
    png_set_user_limits(png, static_cast<png_uint_32>(kMaxImageSide), static_cast<png_uint_32>(kMaxImageSide));
    // Skip texts and profiles.
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png, info);
  });
  if (!ok) throw_damaged(file, session);
  const std::int64_t height = png_get_image_height(session.png, session.info);
  const std::int64_t width = png_get_image_width(session.png, session.info);
  if (height * width > kMaxImagePixels) {
    TERNGRAD_THROW(DataError, "'", file, "': expected up to ", kMaxImagePixels, " pixels, found ", height, " x ",
                   width);
  }
  return {.height = static_cast<int>(height),
          .width = static_cast<int>(width),
          .is_grey = (png_get_color_type(session.png, session.info) & PNG_COLOR_MASK_COLOR) == 0};
}

/// Configures output of `channels` channels with 8 bits. @param row_bytes  out: bytes per row
bool set_output(PngSession& session, int channels, std::size_t& row_bytes) {
  return run(session, [&](png_structp png, png_infop info) {
    png_set_expand(png);  // palettes to colours, fewer bits to 8, transparency to alpha
    png_set_scale_16(png);
    png_set_strip_alpha(png);
    if (channels == 3) png_set_gray_to_rgb(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    row_bytes = png_get_rowbytes(png, info);
  });
}

/// Reads all rows and the rest of the file.
bool read_rows(PngSession& session, std::uint8_t** rows) {
  return run(session, [&](png_structp png, png_infop) {
    png_read_image(png, rows);
    png_read_end(png, nullptr);
  });
}

}  // namespace

ImageHeader read_png_header(const std::string& file, std::span<const std::uint8_t> bytes) {
  PngSession session(file, bytes);
  return start(session, file);
}

DecodedImage decode_png(const std::string& file, std::span<const std::uint8_t> bytes, int channels) {
  TERNGRAD_REQUIRE(channels == 1 || channels == 3, "[decode_png] channels must be 1 or 3, got ", channels);
  PngSession session(file, bytes);
  const ImageHeader header = start(session, file);
  TERNGRAD_REQUIRE(channels == 3 || header.is_grey, "[decode_png] 1 channel of '", file, "', which has colours");
  DecodedImage image{.height = header.height, .width = header.width, .channels = channels, .pixels = {}};
  std::size_t row_bytes = 0;
  if (!set_output(session, channels, row_bytes)) throw_damaged(file, session);
  TERNGRAD_REQUIRE(row_bytes == static_cast<std::size_t>(header.width) * static_cast<std::size_t>(channels),
                   "[decode_png] '", file, "': libpng gives rows of ", row_bytes, " bytes");
  image.pixels.resize(row_bytes * static_cast<std::size_t>(header.height));
  std::vector<std::uint8_t*> rows(static_cast<std::size_t>(header.height));
  for (std::size_t row = 0; row < rows.size(); ++row) rows[row] = image.pixels.data() + row * row_bytes;
  if (!read_rows(session, rows.data())) throw_damaged(file, session);
  return image;
}

std::string encode_png(const DecodedImage& image) {
  check_decoded_image("encode_png", image);
  png_image written{};
  written.version = PNG_IMAGE_VERSION;
  written.height = static_cast<png_uint_32>(image.height);
  written.width = static_cast<png_uint_32>(image.width);
  written.format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t num_bytes = PNG_IMAGE_PNG_SIZE_MAX(written);
  std::string file(num_bytes, '\0');
  if (png_image_write_to_memory(&written, file.data(), &num_bytes, 0, image.pixels.data(), 0, nullptr) == 0) {
    TERNGRAD_THROW(DataError, "[encode_png] libpng: ", written.message);
  }
  file.resize(num_bytes);
  return file;
}

}  // namespace terngrad

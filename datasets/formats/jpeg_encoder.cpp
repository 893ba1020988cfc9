#include "datasets/formats/jpeg_encoder.h"

#include "kernels/runtime/errors.h"

#include <csetjmp>
#include <cstdio>
#include <cstdlib>

#include <jpeglib.h>

namespace terngrad {
namespace {

/// libjpeg's state; errors jump to `jump`. Its destructor runs in a frame that no jump leaves.
struct JpegWriter {
  JpegWriter() {
    z.err = jpeg_std_error(&errors);
    errors.error_exit = [](j_common_ptr failed) {
      auto& writer = *static_cast<JpegWriter*>(failed->client_data);
      failed->err->format_message(failed, writer.message);
      std::longjmp(writer.jump, 1);
    };
    z.client_data = this;
  }
  ~JpegWriter() {
    jpeg_destroy_compress(&z);
    std::free(bytes);
  }
  JpegWriter(const JpegWriter&) = delete;
  JpegWriter& operator=(const JpegWriter&) = delete;

  jpeg_compress_struct z{};
  jpeg_error_mgr errors{};
  std::jmp_buf jump{};
  unsigned char* bytes = nullptr;  // allocated by malloc
  unsigned long num_bytes = 0;     // NOLINT(google-runtime-int): libjpeg's type
  char message[JMSG_LENGTH_MAX] = "";
};

/// Encodes the image. Returns false, with the message set, after an error of libjpeg.
bool write(JpegWriter& writer, const DecodedImage& image, int quality) {
  if (setjmp(writer.jump) != 0) {
    writer.bytes = nullptr;  // may be dangling: libjpeg frees the old buffer when it grows
    return false;
  }
  jpeg_compress_struct& z = writer.z;
  jpeg_create_compress(&z);
  jpeg_mem_dest(&z, &writer.bytes, &writer.num_bytes);
  z.image_height = static_cast<JDIMENSION>(image.height);
  z.image_width = static_cast<JDIMENSION>(image.width);
  z.input_components = image.channels;
  z.in_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&z);
  jpeg_set_quality(&z, quality, TRUE);
  z.optimize_coding = TRUE;
  jpeg_start_compress(&z, TRUE);
  const std::size_t row_bytes = static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.channels);
  while (z.next_scanline < z.image_height) {
    // libjpeg only reads the row.
    auto* row = const_cast<JSAMPLE*>(image.pixels.data() + z.next_scanline * row_bytes);
    jpeg_write_scanlines(&z, &row, 1);
  }
  jpeg_finish_compress(&z);
  return true;
}

}  // namespace

std::string encode_jpeg(const DecodedImage& image, int quality) {
  check_decoded_image("encode_jpeg", image);
  TERNGRAD_REQUIRE(quality >= 1 && quality <= 100, "[encode_jpeg] quality must be in [1, 100], got ", quality);
  JpegWriter writer;
  if (!write(writer, image, quality)) TERNGRAD_THROW(Error, "[encode_jpeg] libjpeg gave up: ", writer.message);
  return {reinterpret_cast<const char*>(writer.bytes), writer.num_bytes};
}

}  // namespace terngrad

// Writes JPEG and PNG files by libjpeg and libpng, for tests of readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "tests/datasets/data_files.h"

#include <jpeglib.h>
#include <png.h>

namespace terngrad {

struct JpegSettings {
  J_COLOR_SPACE colours = JCS_RGB;  // color space of the input pixels
  int channels = 3;
  bool progressive = false;
  int quality = 95;
  int horizontal_sampling = 0;  // first component relative to the others; 0: libjpeg's default
  int vertical_sampling = 0;
  int restart_rows = 0;  // block rows between restart markers, 0: none
};

/// Encodes pixels [height, width, channels] as JPEG.
inline Bytes jpeg(const Bytes& pixels, int height, int width, const JpegSettings& settings = {}) {
  jpeg_compress_struct z{};
  jpeg_error_mgr errors{};
  z.err = jpeg_std_error(&errors);  // ends the process on an error
  jpeg_create_compress(&z);
  unsigned char* out = nullptr;
  unsigned long out_bytes = 0;
  jpeg_mem_dest(&z, &out, &out_bytes);
  z.image_height = static_cast<JDIMENSION>(height);
  z.image_width = static_cast<JDIMENSION>(width);
  z.input_components = settings.channels;
  z.in_color_space = settings.colours;
  jpeg_set_defaults(&z);
  jpeg_set_quality(&z, settings.quality, TRUE);
  if (settings.horizontal_sampling > 0) {
    for (int c = 0; c < z.num_components; ++c) z.comp_info[c].h_samp_factor = z.comp_info[c].v_samp_factor = 1;
    z.comp_info[0].h_samp_factor = settings.horizontal_sampling;
    z.comp_info[0].v_samp_factor = settings.vertical_sampling;
  }
  z.restart_in_rows = settings.restart_rows;
  if (settings.progressive) jpeg_simple_progression(&z);
  jpeg_start_compress(&z, TRUE);
  const std::size_t row_bytes = static_cast<std::size_t>(width) * static_cast<std::size_t>(settings.channels);
  while (z.next_scanline < z.image_height) {
    auto* row = const_cast<JSAMPROW>(pixels.data() + z.next_scanline * row_bytes);
    jpeg_write_scanlines(&z, &row, 1);
  }
  jpeg_finish_compress(&z);
  jpeg_destroy_compress(&z);
  Bytes result(out, out + out_bytes);
  std::free(out);
  return result;
}

struct PngSettings {
  int colour_type = PNG_COLOR_TYPE_RGB;
  int bit_depth = 8;
  bool interlaced = false;
  std::vector<png_color> palette = {};
  double gamma = 0;  // 0: not stated
};

/// Encodes packed rows as PNG.
inline Bytes png(const std::vector<Bytes>& rows, int width, const PngSettings& settings = {}) {
  Bytes result;
  png_structp writer = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(writer);
  if (setjmp(png_jmpbuf(writer)) != 0) throw std::runtime_error("libpng cannot write");
  png_set_write_fn(
      writer, &result,
      [](png_structp to, png_bytep data, std::size_t count) {
        auto& bytes = *static_cast<Bytes*>(png_get_io_ptr(to));
        bytes.insert(bytes.end(), data, data + count);
      },
      nullptr);
  png_set_IHDR(writer, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(rows.size()), settings.bit_depth,
               settings.colour_type, settings.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!settings.palette.empty()) {
    png_set_PLTE(writer, info, settings.palette.data(), static_cast<int>(settings.palette.size()));
  }
  if (settings.gamma > 0) png_set_gAMA(writer, info, settings.gamma);
  png_write_info(writer, info);
  std::vector<png_bytep> pointers;
  for (const Bytes& row : rows) pointers.push_back(const_cast<png_bytep>(row.data()));
  png_write_image(writer, pointers.data());
  png_write_end(writer, info);
  png_destroy_write_struct(&writer, &info);
  return result;
}

/// A smooth image [height, width, channels], which JPEG changes little.
inline Bytes smooth_pixels(int height, int width, int channels) {
  Bytes pixels;
  for (int row = 0; row < height; ++row) {
    for (int column = 0; column < width; ++column) {
      for (int channel = 0; channel < channels; ++channel) {
        pixels.push_back(
            static_cast<std::uint8_t>(40 + 150 * (channel == 1 ? column : row) / (height + width) + 20 * channel));
      }
    }
  }
  return pixels;
}

}  // namespace terngrad

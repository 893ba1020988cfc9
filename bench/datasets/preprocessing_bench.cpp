// The cost of an image for a net of ImageNet once its file is in memory: decoding, crop, resizing, colours. On the JPEG
// and PNG files of --images, or without it on made-up ones of 500 x 375.
#include "bench/datasets/preprocessing_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <jpeglib.h>

#include "bench/rows.h"
#include "datasets/formats/compressed_file.h"
#include "datasets/formats/image_file.h"
#include "datasets/formats/jpeg_image.h"
#include "datasets/transforms/preprocessing.h"
#include "kernels/random/philox.h"
#include "kernels/runtime/parallel.h"

namespace terngrad::bench {
namespace {

constexpr int kSize = 224;
constexpr std::int64_t kValues = std::int64_t{3} * kSize * kSize;
constexpr int kSyntheticImages = 32;
constexpr int kShareRounds = 5;

using FileBytes = std::vector<std::uint8_t>;

/// A photograph of a sort: a gradient with noise, in a file about as large for its pixels as those of ImageNet.
FileBytes synthetic_jpeg(std::uint64_t number) {
  constexpr JDIMENSION kHeight = 375, kWidth = 500;
  const DrawKey key{.seed = number, .step = 0, .worker = 0, .purpose = DrawPurpose::kSyntheticData};
  jpeg_compress_struct z{};
  jpeg_error_mgr errors{};
  z.err = jpeg_std_error(&errors);  // ends the process on an error
  jpeg_create_compress(&z);
  unsigned char* out = nullptr;
  unsigned long out_bytes = 0;
  jpeg_mem_dest(&z, &out, &out_bytes);
  z.image_height = kHeight;
  z.image_width = kWidth;
  z.input_components = 3;
  z.in_color_space = JCS_RGB;
  jpeg_set_defaults(&z);
  jpeg_set_quality(&z, 90, TRUE);
  jpeg_start_compress(&z, TRUE);
  std::vector<std::uint8_t> pixels(std::size_t{3} * kWidth);
  for (JDIMENSION row = 0; row < kHeight; ++row) {
    for (JDIMENSION column = 0; column < kWidth; ++column) {
      const std::uint32_t noise = draw16(key, std::uint64_t{row} * kWidth + column) % 24;
      for (JDIMENSION c = 0; c < 3; ++c)
        pixels[3 * column + c] = static_cast<std::uint8_t>((row + c * column) / 8 + noise);
    }
    JSAMPROW begin = pixels.data();
    jpeg_write_scanlines(&z, &begin, 1);
  }
  jpeg_finish_compress(&z);
  jpeg_destroy_compress(&z);
  FileBytes bytes(out, out + out_bytes);
  std::free(out);
  return bytes;
}

/// Files of --images; none without it.
std::vector<std::filesystem::path>& image_paths() {
  static std::vector<std::filesystem::path> paths;
  return paths;
}

/// Encoded images and their pixels.
struct PhotoSet {
  std::vector<FileBytes> files;
  std::vector<DecodedImage> decoded;
  double num_bytes = 0;

  PhotoSet() {
    for (const std::filesystem::path& path : image_paths()) files.push_back(read_data_file(path));
    if (files.empty()) {
      for (std::uint64_t i = 0; i < kSyntheticImages; ++i) files.push_back(synthetic_jpeg(i));
    }
    for (const FileBytes& file : files) {
      const ImageHeader header = read_image_header("image", file);
      decode_image_box("image", file, {.top = 0, .left = 0, .height = header.height, .width = header.width},
                       decoded.emplace_back());
      num_bytes += static_cast<double>(file.size());
    }
  }
  std::int64_t size() const { return static_cast<std::int64_t>(files.size()); }
  StoredImage encoded(std::size_t i) const { return {.name = "image", .bytes = files[i]}; }
  StoredImage raw(std::size_t i) const {
    return {.name = "image",
            .bytes = decoded[i].pixels,
            .is_raw = true,
            .height = decoded[i].height,
            .width = decoded[i].width};
  }
};

const PhotoSet& photos() {
  static const PhotoSet set;
  return set;
}

/// One preprocessing of all images by some threads; every call is another epoch.
class Preprocess {
 public:
  Preprocess(const std::string& name, Subset subset, int num_threads)
      : preprocessing_(make_preprocessing(name, subset, kSize)),
        num_threads_(num_threads),
        squares_(static_cast<std::size_t>(photos().size() * kValues)) {}

  void run(bool is_raw) {
    ++epoch_;
    parallel_for(num_threads_, photos().size(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto at = static_cast<std::size_t>(i);
        preprocessing_->run(is_raw ? photos().raw(at) : photos().encoded(at), {.seed = 1, .epoch = epoch_}, i,
                            std::span(squares_).subspan(at * kValues, kValues));
      }
    });
  }
  bool is_plausible() const {
    return std::all_of(squares_.begin(), squares_.end(), [](float value) { return std::fabs(value) < 256; });
  }
  /// The part of the time that the same visits take less when the pixels are there.
  double share_of_decoding() {
    double encoded = 0, raw = 0;
    for (int round = 0; round < kShareRounds; ++round) {
      encoded += seconds(/*is_raw=*/false);
      --epoch_;  // the same visits
      raw += seconds(/*is_raw=*/true);
    }
    return 1 - raw / encoded;
  }

 private:
  double seconds(bool is_raw) {
    const auto begin = std::chrono::steady_clock::now();
    run(is_raw);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  std::unique_ptr<Preprocessing> preprocessing_;
  int num_threads_;
  std::vector<float> squares_;
  std::uint64_t epoch_ = 0;
};

Subject on_photos(std::function<Work(Stream& stream)> prepare) {
  const auto examples = static_cast<double>(photos().size());
  const double elements = examples * static_cast<double>(kValues);
  return {.bytes = photos().num_bytes + 4 * elements,
          .elements = elements,
          .examples = examples,
          .prepare = std::move(prepare)};
}

Subject preprocess(const std::string& name, Subset subset, bool is_raw, int num_threads) {
  const auto state = std::make_shared<Preprocess>(name, subset, num_threads);
  Subject subject = on_photos([=](Stream&) {
    return Work{.run = [=] { state->run(is_raw); }, .check = [=] { return state->is_plausible(); }};
  });
  if (!is_raw) subject.counters = [=] { return Counters{{"share_of_decoding", state->share_of_decoding()}}; };
  return subject;
}

Work decode(Stream& stream) {
  const auto pixels = std::make_shared<std::vector<DecodedImage>>(photos().files.size());
  const auto run = [=, &stream] {
    parallel_for(stream.num_threads(), photos().size(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const DecodedImage& whole = photos().decoded[static_cast<std::size_t>(i)];
        decode_image_box("image", photos().files[static_cast<std::size_t>(i)],
                         {.top = 0, .left = 0, .height = whole.height, .width = whole.width},
                         (*pixels)[static_cast<std::size_t>(i)]);
      }
    });
  };
  const auto check = [=] {
    return std::ranges::equal(*pixels, photos().decoded, {}, &DecodedImage::pixels, &DecodedImage::pixels);
  };
  return {run, check};
}

const Registration registration(__FILE__, [](Rows& rows) {
  const auto add = [&](const std::string& what, int threads, const std::function<Subject()>& make) {
    rows.cpu.push_back({cpu_row_name(what, "u8", kValues, threads), kSyntheticImages * kValues, threads, make});
  };
  for (const int threads : thread_counts()) {
    add("preprocess/decode", threads, [] { return on_photos(decode); });
    for (const std::string& name : image_preprocessing_names()) {
      const auto add_subset = [&](const std::string& what, Subset subset, bool is_raw) {
        std::string row = "preprocess/";
        row += name;
        row += what;
        add(row, threads, [=] { return preprocess(name, subset, is_raw, threads); });
      };
      add_subset("", Subset::kTrain, false);
      add_subset("_raw", Subset::kTrain, true);
      add_subset("_evaluation", Subset::kTest, false);
    }
  }
});

}  // namespace

bool set_image_folder(const std::string& folder) {
  std::error_code error;
  image_paths().clear();
  for (std::filesystem::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->is_regular_file() && has_image_suffix(it->path())) image_paths().push_back(it->path());
  }
  std::sort(image_paths().begin(), image_paths().end());
  return !error && !image_paths().empty();
}

}  // namespace terngrad::bench

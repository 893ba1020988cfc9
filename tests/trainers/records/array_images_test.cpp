#include "trainers/records/array_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "datasets/formats/image_file.h"
#include "datasets/formats/npy.h"
#include "datasets/sets/cifar10.h"
#include "datasets/sets/mnist.h"
#include "tests/datasets/data_files.h"
#include "tests/trainers/command_runs.h"
#include "trainers/records/shard_builder.h"

namespace terngrad::array_images_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::TemporaryDirectory;

/// Compares all images and labels of two sets, for two visits.
void expect_same_images(const Dataset& a, const Dataset& b) {
  ASSERT_EQ(a.num_examples(), b.num_examples());
  std::vector<float> one(static_cast<std::size_t>(a.image_elements())), other(one.size());
  for (std::int64_t i = 0; i < a.num_examples(); ++i) {
    ASSERT_EQ(a.label(i), b.label(i));
    for (const std::uint64_t epoch : {0u, 3u}) {
      a.read(i, {.seed = 9, .epoch = epoch}, one);
      b.read(i, {.seed = 9, .epoch = epoch}, other);
      ASSERT_EQ(one, other) << i;
    }
  }
}

void build(const ImageSources& sources, const fs::path& folder) {
  build_shards(sources, {.folder = folder.string(), .train_shards = 3, .test_shards = 2, .num_threads = 2}, {});
}

TEST(ArrayImages, MnistComesBackFromRecords) {
  const testing::SmallMnist mnist;
  const TemporaryDirectory folder;
  build(mnist_images(mnist.path().string()), folder / "records");
  for (const Subset subset : {Subset::kTrain, Subset::kTest}) {
    const auto files = make_mnist({.data_dir = mnist.path().string(), .subset = subset});
    const auto records = make_mnist({.data_dir = (folder / "records").string(), .subset = subset, .num_threads = 2});
    expect_same_images(*files, *records);
  }
}

/// Files in the format of CIFAR-10 with random pixels; all have the same records.
class SmallCifar10 {
 public:
  SmallCifar10() {
    std::string bytes(static_cast<std::size_t>(kCifar10FileRecords) * kCifar10RecordBytes, '\0');
    std::mt19937_64 random(5);
    for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
      const std::uint64_t word = random();
      std::memcpy(bytes.data() + at, &word, sizeof(word));
    }
    for (std::size_t i = 0; i < bytes.size(); i += kCifar10RecordBytes) bytes[i] = static_cast<char>(i % 10);
    for (int i = 1; i <= 5; ++i) folder_.write("data_batch_" + std::to_string(i) + ".bin", bytes);
    folder_.write("test_batch.bin", bytes);
  }
  std::string path() const { return folder_.path().string(); }

 private:
  TemporaryDirectory folder_;
};

TEST(ArrayImages, Cifar10ComesBackFromRecords) {
  const SmallCifar10 cifar;
  const std::string real = cifar.path();
  // The first images of both subsets.
  class First final : public ImageSource {
   public:
    explicit First(const ImageSource& source) : source_(source) {}
    std::size_t size() const override { return 100; }
    ImageExample example(std::size_t index) const override { return source_.example(index); }
    std::string name(std::size_t index) const override { return source_.name(index); }
    std::string key(std::size_t index) const override { return source_.key(index); }

   private:
    const ImageSource& source_;
  };
  const ImageSources all = cifar10_images(real);
  const TemporaryDirectory folder;
  ImageSources first{.train = std::make_unique<First>(*all.train),
                     .test = std::make_unique<First>(*all.test),
                     .names = all.names,
                     .is_shuffled = all.is_shuffled};
  build(first, folder / "records");
  for (const char* preprocessing : {"auto", "padded"}) {
    for (const Subset subset : {Subset::kTrain, Subset::kTest}) {
      const auto files = make_cifar10({.data_dir = real, .subset = subset, .preprocessing = preprocessing});
      const auto records =
          make_cifar10({.data_dir = (folder / "records").string(), .subset = subset, .preprocessing = preprocessing});
      ASSERT_EQ(records->num_examples(), 100);
      std::vector<float> one(static_cast<std::size_t>(files->image_elements())), other(one.size());
      for (std::int64_t i = 0; i < 100; ++i) {
        ASSERT_EQ(files->label(i), records->label(i));
        files->read(i, {.seed = 3, .epoch = 5}, one);
        records->read(i, {.seed = 3, .epoch = 5}, other);
        ASSERT_EQ(one, other) << i;
      }
    }
  }
}

std::string npy(const std::vector<std::int64_t>& shape, NpyKind kind = NpyKind::kUnsigned) {
  std::size_t count = 1;
  for (const std::int64_t side : shape) count *= static_cast<std::size_t>(side);
  std::string text = npy_beginning(kind, kind == NpyKind::kFloat ? 4 : 1, shape);
  for (std::size_t i = 0; i < count * (kind == NpyKind::kFloat ? 4 : 1); ++i) text += static_cast<char>(i % 3);
  return text;
}

TEST(ArrayImages, NumPyArraysBecomeImages) {
  const TemporaryDirectory folder;
  const std::string root = folder.path().string();
  EXPECT_THAT(data_error([&] { npy_images(root); }), HasSubstr("neither train_images.npy nor test_images.npy"));
  folder.write("train_images.npy", npy({4, 2, 3}));
  folder.write("train_labels.npy", npy({4}));
  folder.write("test_images.npy", npy({2, 2, 3, 3}));
  folder.write("test_labels.npy", npy({2}));
  const ImageSources sources = npy_images(root);
  ASSERT_EQ(sources.train->size(), 4u);
  const ImageExample grey = sources.train->example(2);
  EXPECT_EQ(grey.label, 2);
  EXPECT_EQ(grey.channels, 1);
  const std::span<const std::uint8_t> bytes(reinterpret_cast<const std::uint8_t*>(grey.encoded.data()),
                                            grey.encoded.size());
  EXPECT_EQ(decode_image("image", bytes, 1).pixels, (Bytes{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(sources.test->example(1).channels, 3);
  EXPECT_EQ(sources.test->example(1).height, 2);
  folder.write("train_labels.npy", npy({3}));
  EXPECT_THAT(data_error([&] { npy_images(root); }), HasSubstr("each of 3 labels, found [4, 2, 3]"));
  folder.write("train_images.npy", npy({4, 2, 3}, NpyKind::kFloat));
  EXPECT_THAT(data_error([&] { npy_images(root); }), HasSubstr("expected bytes (uint8)"));
}

}  // namespace
}  // namespace terngrad::array_images_test

#include "trainers/loop/data_fingerprint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace terngrad::data_fingerprint_test {
namespace {

/// A data set with changeable labels and pixels.
class ListedImages final : public Dataset {
 public:
  std::vector<std::int32_t> labels = {0, 1, 2, 1};
  std::vector<float> pixels = {0.1f, 0.2f, 0.3f, 0.4f};
  int classes = 3;

  const std::string& name() const override { return name_; }
  std::int64_t num_examples() const override { return static_cast<std::int64_t>(labels.size()); }
  int height() const override { return 2; }
  int width() const override { return 2; }
  int channels() const override { return 1; }
  int num_classes() const override { return classes; }
  std::int32_t label(std::int64_t index) const override { return labels.at(static_cast<std::size_t>(index)); }
  void read(std::int64_t index, const ExampleVisit& visit, std::span<float> image) const override {
    for (float& pixel : image) {
      pixel = pixels.at(static_cast<std::size_t>(index)) + static_cast<float>(visit.seed + visit.epoch);
    }
  }

 private:
  std::string name_ = "listed";
};

TEST(DataFingerprint, IsSixteenDigitsAndEqualForEqualData) {
  EXPECT_THAT(data_fingerprint(ListedImages()), ::testing::MatchesRegex("[0-9a-f]{16}"));
  EXPECT_EQ(data_fingerprint(ListedImages()), data_fingerprint(ListedImages()));
}

TEST(DataFingerprint, SeesLabelsNumbersAndTheImagesAtBothEnds) {
  const std::string original = data_fingerprint(ListedImages());
  const auto changed = [](const auto& change) {
    ListedImages images;
    change(images);
    return data_fingerprint(images);
  };
  EXPECT_NE(changed([](ListedImages& images) { images.labels[2] = 0; }), original);
  EXPECT_NE(changed([](ListedImages& images) { images.labels.pop_back(); }), original);
  EXPECT_NE(changed([](ListedImages& images) { images.classes = 4; }), original);
  EXPECT_NE(changed([](ListedImages& images) { images.pixels[0] = 0.5f; }), original);
  EXPECT_NE(changed([](ListedImages& images) { images.pixels[3] = 0.5f; }), original);
}

}  // namespace
}  // namespace terngrad::data_fingerprint_test

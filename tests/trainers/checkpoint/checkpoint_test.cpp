#include "trainers/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "kernels/runtime/errors.h"
#include "tests/trainers/expected_identity.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/io/atomic_file.h"

namespace terngrad::checkpoint_test {
namespace {

namespace fs = std::filesystem;
using testing::expected_identity;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;
using testing::TemporaryDirectory;

Layout small_layout() {
  Layout layout;
  layout.add("conv/weights", {2, 3});
  layout.add("conv/biases", {3});
  layout.add("scale", {});
  return layout;
}

std::vector<std::byte> to_bytes(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A small model with a distinct value in each element, including padding.
struct Model {
  Layout layout = small_layout();
  std::vector<float> parameters = std::vector<float>(static_cast<std::size_t>(layout.flat_elements()));
  std::vector<float> momentum = parameters;

  Model() {
    std::iota(parameters.begin(), parameters.end(), 1.0f);
    std::iota(momentum.begin(), momentum.end(), -500.0f);
  }
  CheckpointView view(std::uint64_t step) const {
    return {.state = {.step = step,
                      .net = "lenet",
                      .dataset = "synthetic",
                      .optimizer = "momentum",
                      .num_workers = 4,
                      .seed = 12345678901234567890u,
                      .extra_metadata = {{"codec", "ternary"}}},
            .layout = &layout,
            .groups = {{.name = "parameters", .values = parameters}, {.name = "slots/momentum", .values = momentum}}};
  }
};

TEST(Checkpoint, RoundTripsStateAndTensors) {
  const TemporaryDirectory folder;
  const Model model;
  const CheckpointView view = model.view(42);
  const fs::path path = save_checkpoint(folder.path(), view);
  EXPECT_EQ(path.filename(), "checkpoint-0000000042.safetensors");
  const Checkpoint checkpoint = load_checkpoint(path);
  EXPECT_EQ(checkpoint.state(), view.state);
  EXPECT_EQ(checkpoint.layout_fingerprint(), model.layout.fingerprint());
  std::vector<float> read(model.parameters.size(), -1.0f);
  checkpoint.read_group("slots/momentum", model.layout, read);
  for (const Segment& segment : model.layout.segments()) {
    for (std::int64_t i = 0; i < segment.num_elements; ++i) {
      const auto at = static_cast<std::size_t>(segment.offset + i);
      EXPECT_EQ(read[at], model.momentum[at]);
    }
  }
  EXPECT_EQ(read[6], 0.0f) << "padding is zero";
  EXPECT_TRUE(checkpoint.has_group("parameters"));
  EXPECT_FALSE(checkpoint.has_group("ema"));
}

TEST(Checkpoint, EqualStatesGiveEqualBytesWhateverThePadding) {
  const TemporaryDirectory first, second;
  Model model;
  const std::string bytes = read_file_text(save_checkpoint(first.path(), model.view(42)));
  model.parameters[6] = 99.0f;
  EXPECT_EQ(read_file_text(save_checkpoint(second.path(), model.view(42))), bytes);
  model.parameters[0] = 99.0f;
  EXPECT_NE(read_file_text(save_checkpoint(second.path(), model.view(42))), bytes);
}

TEST(Checkpoint, GroupsMayHaveLayoutsOfTheirOwn) {
  const TemporaryDirectory folder;
  const Model model;
  Layout statistics;
  statistics.add("mean", {16});
  const std::vector<float> values(16, 2.5f);
  CheckpointView view = model.view(1);
  view.groups.push_back({.name = "batch_norm/0003", .values = values, .layout = &statistics});
  const Checkpoint checkpoint = load_checkpoint(save_checkpoint(folder.path(), view));
  std::vector<float> read(16);
  checkpoint.read_group("batch_norm/0003", statistics, read);
  EXPECT_EQ(read, values);
}

TEST(Checkpoint, EveryBitFlipIsRefused) {
  const TemporaryDirectory folder;
  const Model model;
  const std::string whole = read_file_text(save_checkpoint(folder.path(), model.view(42)));
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    EXPECT_THROW(parse_checkpoint(to_bytes(damaged), "damaged"), DataError) << "bit " << bit;
  }
}

TEST(Checkpoint, EveryTruncationIsRefused) {
  const TemporaryDirectory folder;
  const Model model;
  const std::string whole = read_file_text(save_checkpoint(folder.path(), model.view(42)));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THROW(parse_checkpoint(to_bytes(whole.substr(0, length)), "truncated"), DataError) << length;
  }
}

TEST(Checkpoint, ChecksumMismatchNamesTheFile) {
  const TemporaryDirectory folder;
  const Model model;
  std::string bytes = read_file_text(save_checkpoint(folder.path(), model.view(42)));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  const fs::path path = folder.write("damaged", bytes);
  const std::string message = message_of<DataError>([&] { load_checkpoint(path); });
  EXPECT_THAT(message, HasSubstr(path.string()));
  EXPECT_THAT(message, HasSubstr("checksum"));
}

TEST(Checkpoint, DamagedOneOffersTheNewestIntactOneBefore) {
  const TemporaryDirectory folder;
  const Model model;
  for (const std::uint64_t step : {10u, 20u, 30u, 40u}) save_checkpoint(folder.path(), model.view(step));
  folder.write("checkpoint-0000000030.safetensors", "damaged");
  const fs::path newest = folder.write("checkpoint-0000000040.safetensors", "damaged");
  const std::string message = message_of<DataError>([&] { load_checkpoint(newest); });
  EXPECT_THAT(message, HasSubstr(newest.string()));
  EXPECT_THAT(message, HasSubstr("can be used instead: '" + checkpoint_path(folder.path(), 20).string() + "'"));
}

TEST(Checkpoint, DamagedOneWithNoneBeforeOffersNothing) {
  const TemporaryDirectory folder;
  const Model model;
  save_checkpoint(folder.path(), model.view(50));
  const fs::path path = folder.write("checkpoint-0000000040.safetensors", "damaged");
  EXPECT_THAT(message_of<DataError>([&] { load_checkpoint(path); }), Not(HasSubstr("instead")));
}

TEST(Checkpoint, ForeignAndFutureFilesAreRefused) {
  const TemporaryDirectory folder;
  write_safetensors(folder / "foreign", {}, {{"format", "pt"}});
  EXPECT_THAT(message_of<DataError>([&] { load_checkpoint(folder / "foreign"); }), HasSubstr("no format_version"));
  write_safetensors(folder / "future", {}, {{"format_version", "2"}});
  EXPECT_THAT(message_of<DataError>([&] { load_checkpoint(folder / "future"); }), HasSubstr("format_version is '2'"));
  EXPECT_THROW(load_checkpoint(folder / "missing"), DataError);
}

TEST(Checkpoint, LoadsAFileWhoseTensorsWereReordered) {
  const TemporaryDirectory folder;
  const Model model;
  const SafetensorsFile file = SafetensorsFile::read(save_checkpoint(folder.path(), model.view(42)));
  std::vector<TensorRecord> records(file.tensors().rbegin(), file.tensors().rend());
  write_safetensors(folder / "reordered", records, file.metadata());
  EXPECT_EQ(load_checkpoint(folder / "reordered").state(), model.view(42).state);
}

TEST(Checkpoint, ListsByStepAndIgnoresOtherFiles) {
  const TemporaryDirectory folder;
  for (const char* name :
       {"checkpoint-0000000100.safetensors", "checkpoint-0000000020.safetensors", "checkpoint-12345678901.safetensors",
        "checkpoint-20.safetensors", "checkpoint-.safetensors", "checkpoint-000000001x.safetensors",
        ".checkpoint-0000000300.safetensors.0.tmp", "config.json"}) {
    folder.write(name, "");
  }
  const std::vector<CheckpointFile> files = list_checkpoints(folder.path());
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files[0].step, 20u);
  EXPECT_EQ(files[1], (CheckpointFile{100, folder / "checkpoint-0000000100.safetensors"}));
  EXPECT_EQ(files[2].step, 12345678901u);
  EXPECT_EQ(latest_checkpoint(folder.path())->step, 12345678901u);
  EXPECT_FALSE(latest_checkpoint(folder / "none").has_value());
}

TEST(Checkpoint, KeepsTheLastN) {
  const TemporaryDirectory folder;
  const Model model;
  const auto steps = [&] {
    std::vector<std::uint64_t> all;
    for (const CheckpointFile& file : list_checkpoints(folder.path())) all.push_back(file.step);
    return all;
  };
  for (const std::uint64_t step : {1u, 2u, 3u}) save_checkpoint(folder.path(), model.view(step), 0);
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{1, 2, 3}));
  save_checkpoint(folder.path(), model.view(4), 2);
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{3, 4}));
  save_checkpoint(folder.path(), model.view(2), 1);
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{2, 3, 4})) << "the new one is never the one deleted";
}

TEST(Checkpoint, CleansUpAfterAKilledSave) {
  const TemporaryDirectory folder;
  const Model model;
  folder.write(".checkpoint-0000000001.safetensors.0.tmp", "half");
  EXPECT_FALSE(latest_checkpoint(folder.path()).has_value());
  save_checkpoint(folder.path(), model.view(2));
  EXPECT_FALSE(fs::exists(folder / ".checkpoint-0000000001.safetensors.0.tmp"));
}

TEST(Checkpoint, FailedSaveDeletesNothing) {
  const TemporaryDirectory folder;
  const Model model;
  save_checkpoint(folder.path(), model.view(1), 1);
  fs::create_directory(folder / "checkpoint-0000000002.safetensors");
  EXPECT_THROW(save_checkpoint(folder.path(), model.view(2), 1), DataError);
  EXPECT_EQ(load_checkpoint(checkpoint_path(folder.path(), 1)).state().step, 1u);
}

TEST(Checkpoint, OfAnotherNetNamesTensorsAndShapes) {
  const TemporaryDirectory folder;
  const Model model;
  const Checkpoint checkpoint = load_checkpoint(save_checkpoint(folder.path(), model.view(42)));
  EXPECT_NO_THROW(checkpoint.check_matches(model.layout));

  Layout other_shape;
  other_shape.add("conv/weights", {3, 2});
  EXPECT_THAT(message_of<DataError>([&] { checkpoint.check_matches(other_shape); }),
              HasSubstr("expected tensor 'parameters/conv/weights' F32 [3, 2], found F32 [2, 3]"));
  Layout other_name;
  other_name.add("fc/weights", {2, 3});
  EXPECT_THAT(message_of<DataError>([&] { checkpoint.check_matches(other_name); }),
              HasSubstr("expected tensor 'parameters/fc/weights' F32 [2, 3], found none"));
  Layout smaller;
  smaller.add("conv/weights", {2, 3});
  smaller.add("conv/biases", {3});
  EXPECT_THAT(message_of<DataError>([&] { checkpoint.check_matches(smaller, "slots/momentum"); }),
              HasSubstr("found tensor 'slots/momentum/scale' F32 [], expected none"));
  std::vector<float> values(model.parameters.size());
  EXPECT_THAT(message_of<DataError>([&] { checkpoint.read_group("ema", model.layout, values); }), HasSubstr("ema/"));
}

TEST(Checkpoint, OfAnotherRunNamesWhatDiffers) {
  const TemporaryDirectory folder;
  const Model model;
  const Checkpoint checkpoint = load_checkpoint(save_checkpoint(folder.path(), model.view(42)));
  CheckpointState expected = model.view(0).state;
  EXPECT_NO_THROW(checkpoint.check_same_run(expected_identity(expected)));
  expected.num_workers = 8;
  EXPECT_THAT(message_of<UsageError>([&] { checkpoint.check_same_run(expected_identity(expected)); }),
              HasSubstr("this run has --num_workers '8', there it is '4'"));
  expected.num_workers = 4;
  expected.extra_metadata["codec"] = "fp32";
  EXPECT_THAT(message_of<UsageError>([&] { checkpoint.check_same_run(expected_identity(expected)); }),
              HasSubstr("codec 'fp32', there it is 'ternary'"));
  expected.extra_metadata = {{"clip_factor", "2.5"}};
  EXPECT_THAT(message_of<UsageError>([&] { checkpoint.check_same_run(expected_identity(expected)); }),
              HasSubstr("(none)"));
}

TEST(Checkpoint, SaveRefusesWhatItCouldNotReadBack) {
  const TemporaryDirectory folder;
  const Model model;
  CheckpointView view = model.view(1);
  view.state.extra_metadata["seed"] = "7";
  EXPECT_THROW(save_checkpoint(folder.path(), view), InvalidArgument);
  view = model.view(1);
  view.groups[0].values = view.groups[0].values.first(3);
  EXPECT_THROW(save_checkpoint(folder.path(), view), InvalidArgument);
  view = model.view(1);
  view.groups[0].name = "slots";
  EXPECT_THROW(save_checkpoint(folder.path(), view), InvalidArgument);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace terngrad::checkpoint_test

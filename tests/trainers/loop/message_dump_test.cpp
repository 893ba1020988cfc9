#include "trainers/loop/message_dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compress/plan/codec_plan.h"
#include "compress/wire/wire_format.h"
#include "kernels/runtime/errors.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/io/atomic_file.h"

namespace terngrad::message_dump_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryDirectory;

Layout small_layout() {
  Layout layout;
  layout.add("conv/weights", {3, 6});
  layout.add("logits/biases", {3}, /*is_logits=*/true);
  return layout;
}

/// Writes an empty message with these fields.
void write(MessageDump& dump, MessageKind kind, std::uint64_t step, int worker) {
  MessageWriter writer;
  writer.begin(kind, {.run_id = 1, .fingerprint = 2, .step = step}, worker, 0, max_message_bytes(0, 0, 0));
  dump.write(writer.finish());
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

TEST(MessageDump, NamesFilesByStepRankOrderKindAndWorker) {
  const TemporaryDirectory folder;
  MessageDump dump(folder / "dump", 3, 8, 2);
  // A resumed run may start at any step.
  write(dump, MessageKind::kScalers, 17, 5);
  write(dump, MessageKind::kGradient, 17, 5);
  write(dump, MessageKind::kPartialSum, 17, 4);
  write(dump, MessageKind::kMean, 18, 0);
  write(dump, MessageKind::kScalers, 19, 5);
  EXPECT_THAT(names_in(folder / "dump"),
              ElementsAre("layout.json", "step-000017-rank-3-0000-scalers-worker-5.msg",
                          "step-000017-rank-3-0001-gradient-worker-5.msg", "step-000017-rank-3-0002-sum-worker-4.msg",
                          "step-000018-rank-3-0000-mean-worker-0.msg"));
}

TEST(MessageDump, FilesHoldTheMessagesBytes) {
  const TemporaryDirectory folder;
  MessageDump dump(folder.path(), 0, 1, 1);
  MessageWriter writer;
  writer.begin(MessageKind::kGradient, {.step = 0}, 0, 1, max_message_bytes(1, 1, 8));
  const float scaler = 1.5f;
  std::fill_n(writer.add({0, 0, 2}, 1, 0, {&scaler, 1}, 8), 8, std::uint8_t{7});
  const std::span<const std::uint8_t> message = writer.finish();
  dump.write(message);
  const std::string file = read_file_text(folder / "step-000000-rank-0-0000-gradient-worker-0.msg");
  EXPECT_TRUE(std::ranges::equal(file, message, {}, [](char c) { return static_cast<std::uint8_t>(c); }));
}

TEST(MessageDump, LayoutsHaveTheFingerprintsOfTheirMessages) {
  const TemporaryDirectory folder;
  MessageDump dump(folder.path(), 0, 8, 1);
  const Layout layout = small_layout();
  const CodecPlan plan(layout, with_workers({}, 8));
  dump.add_layout(0xab, layout, plan);
  dump.add_layout(0xffffffffffffffff, layout, plan);
  write(dump, MessageKind::kScalers, 0, 0);
  const auto json = nlohmann::json::parse(read_file_text(folder / "layout.json"));
  EXPECT_EQ(json["num_workers"], 8);
  EXPECT_EQ(json["layouts"].size(), 2u);
  const auto& tensors = json["layouts"]["00000000000000ab"];
  EXPECT_EQ(tensors[0]["name"], "conv/weights");
  EXPECT_EQ(tensors[0]["shape"], nlohmann::json::array({3, 6}));
  EXPECT_EQ(tensors[0]["codec"], "ternary");
  EXPECT_EQ(tensors[0]["options"], plan.codec_of(0).options_text());
  EXPECT_EQ(tensors[1]["is_logits"], true);
  EXPECT_EQ(tensors[1]["codec"], "fp32");
}

TEST(MessageDump, RefusesWhatItCannotName) {
  const TemporaryDirectory folder;
  MessageDump dump(folder.path(), 0, 8, 1);
  EXPECT_THROW(write(dump, MessageKind::kPush, 0, 0), CommunicationError);
  const std::vector<std::uint64_t> letters(8);
  EXPECT_THROW(dump.write({reinterpret_cast<const std::uint8_t*>(letters.data()), 64}), CommunicationError);
}

TEST(CheckDumpFolder, TakesANewOrAnEmptyOne) {
  const TemporaryDirectory folder;
  check_dump_folder(folder / "new");
  EXPECT_FALSE(fs::exists(folder / "new"));
  check_dump_folder(folder.path());
  std::ofstream(folder / "file") << "x";
  EXPECT_THAT(message_of<UsageError>([&] { check_dump_folder(folder.path()); }), HasSubstr("is not empty"));
  EXPECT_THAT(message_of<UsageError>([&] { check_dump_folder(folder / "file"); }), HasSubstr("is not a folder"));
}

}  // namespace
}  // namespace terngrad::message_dump_test

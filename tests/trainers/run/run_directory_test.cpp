#include "trainers/run/run_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "kernels/runtime/errors.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/io/atomic_file.h"

namespace terngrad::run_directory_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;
using testing::TemporaryDirectory;

RunDescription description() {
  return {.command = "terngrad_train",
          .arguments = {"--seed", "7", "\xff"},
          .options = {{"seed", std::uint64_t{7}, true},
                      {"clip_factor", 2.5, false},
                      {"quantize_logits", false, false},
                      {"codec_for", std::vector<std::string>{"a=b"}, true},
                      {"dataset", std::string("mnist"), false},
                      {"num_gpus", std::int64_t{-1}, false}},
          .version = "0.1.0",
          .commit = "abc",
          .identity = {{"net", "lenet"}, {"max_steps", "20"}},
          .hosts = {"node1", "node2"}};
}

nlohmann::json config_in(const fs::path& path) { return nlohmann::json::parse(read_file_text(path / "config.json")); }

TEST(RunDirectory, CreatesParentsAndRecordsTheStart) {
  const TemporaryDirectory folder;
  const RunDirectory run = RunDirectory::create(folder / "a/b", description());
  EXPECT_EQ(run.path(), folder / "a/b");
  EXPECT_EQ(run.metrics_path(), folder / "a/b/metrics.jsonl");
  const nlohmann::json config = config_in(run.path());
  EXPECT_EQ(config["command"], "terngrad_train");
  EXPECT_EQ(run.recorded_identity(), description().identity);
  EXPECT_EQ(run.recorded_identity().at("max_steps"), "20");
  EXPECT_EQ(config["options"], (nlohmann::json{{"seed", 7},
                                               {"clip_factor", 2.5},
                                               {"quantize_logits", false},
                                               {"codec_for", {"a=b"}},
                                               {"dataset", "mnist"},
                                               {"num_gpus", -1}}));
  EXPECT_EQ(config["set_by_user"], (nlohmann::json{"seed", "codec_for"}));
  ASSERT_EQ(config["history"].size(), 1u);
  const nlohmann::json& start = config["history"][0];
  EXPECT_EQ(start["step"], 0);
  EXPECT_EQ(start["version"], "0.1.0");
  EXPECT_EQ(start["commit"], "abc");
  EXPECT_THAT(start["hosts"], ElementsAre("node1", "node2"));
  EXPECT_EQ(start["compiler"], compiler_name());
  EXPECT_EQ(start["arguments"][1], "7");
  EXPECT_GE(start["machine"]["usable_cores"], 1);
  EXPECT_THAT(start["machine"]["cpu_model"].get<std::string>(), Not(HasSubstr("\n")));
  EXPECT_EQ(start["time"].get<std::string>().size(), 20u);
}

TEST(RunDirectory, EmptyFoldersAndLeftOverTemporariesAreFine) {
  const TemporaryDirectory folder;
  folder.write(".config.json.0.tmp", "half");
  EXPECT_NO_THROW(RunDirectory::create(folder.path(), description()));
  EXPECT_FALSE(fs::exists(folder / ".config.json.0.tmp"));
}

TEST(RunDirectory, FolderInUseBySomethingElseIsRefused) {
  const TemporaryDirectory folder;
  folder.write("notes.txt", "mine");
  const std::string message = message_of<UsageError>([&] { RunDirectory::create(folder.path(), description()); });
  EXPECT_THAT(message, HasSubstr("holds 'notes.txt'"));
  EXPECT_THAT(message, HasSubstr("choose another --train_dir"));
  EXPECT_THAT(message, Not(HasSubstr("--resume")));
  EXPECT_FALSE(RunDirectory::holds_run(folder.path()));
}

TEST(RunDirectory, FinishedRunIsNotOverwritten) {
  const TemporaryDirectory folder;
  { const RunDirectory run = RunDirectory::create(folder.path(), description()); }
  const std::string before = read_file_text(folder / "config.json");
  EXPECT_THAT(message_of<UsageError>([&] { RunDirectory::create(folder.path(), description()); }),
              HasSubstr("resume the run in it with --resume"));
  EXPECT_EQ(read_file_text(folder / "config.json"), before);
}

TEST(RunDirectory, ResumeAppendsToTheHistory) {
  const TemporaryDirectory folder;
  { const RunDirectory run = RunDirectory::create(folder.path(), description()); }
  RunDescription second = description();
  second.options = {{"seed", std::uint64_t{8}, false}};
  RunDirectory::resume(folder.path()).record_start(second, 500);
  const nlohmann::json config = config_in(folder.path());
  ASSERT_EQ(config["history"].size(), 2u);
  EXPECT_EQ(config["history"][0]["options"]["seed"], 7);
  EXPECT_EQ(config["history"][1]["step"], 500);
  EXPECT_EQ(config["options"], (nlohmann::json{{"seed", 8}}));
}

TEST(RunDirectory, ResumeNeedsARun) {
  const TemporaryDirectory folder;
  EXPECT_THAT(message_of<UsageError>([&] { RunDirectory::resume(folder.path()); }), HasSubstr("no run to resume"));
  EXPECT_THROW(RunDirectory::resume(folder / "none"), UsageError);
  EXPECT_FALSE(fs::exists(folder / "none"));
}

TEST(RunDirectory, DamagedConfigIsRefusedAndKept) {
  const TemporaryDirectory folder;
  for (const char* text : {"{\"history\":[", "[]", "{\"history\":3}", ""}) {
    folder.write("config.json", text);
    EXPECT_THAT(message_of<DataError>([&] { RunDirectory::resume(folder.path()).record_start(description(), 0); }),
                HasSubstr("config.json' is damaged"));
    EXPECT_EQ(read_file_text(folder / "config.json"), text);
  }
}

TEST(RunDirectory, TwoProcessesCannotShareOne) {
  const TemporaryDirectory folder;
  {
    const RunDirectory first = RunDirectory::create(folder.path(), description());
    EXPECT_THAT(message_of<UsageError>([&] { RunDirectory::resume(folder.path()); }),
                HasSubstr("in use by another process"));
  }
  EXPECT_NO_THROW(RunDirectory::resume(folder.path()));
}

TEST(RunDirectory, RenamedOneIsKnownByItsNewNameAndStillLocked) {
  const TemporaryDirectory folder;
  const RunDirectory run = RunDirectory::create(folder / "run", description());
  fs::rename(folder / "run", folder / "moved");
  EXPECT_EQ(run.path(), folder / "moved");
  EXPECT_THAT(message_of<UsageError>([&] { RunDirectory::resume(folder / "moved"); }), HasSubstr("in use"));
  // Another run may use the name without being disturbed.
  const RunDirectory other = RunDirectory::create(folder / "run", description());
  fs::remove(folder / "run/config.json");
  EXPECT_FALSE(run.restore_config());
  EXPECT_FALSE(fs::exists(folder / "run/config.json"));
}

TEST(RunDirectory, DeletedConfigIsWrittenAgain) {
  const TemporaryDirectory folder;
  { const RunDirectory run = RunDirectory::create(folder.path(), description()); }
  RunDirectory run = RunDirectory::resume(folder.path());
  run.record_start(description(), 5);
  const std::string text = read_file_text(folder / "config.json");
  EXPECT_FALSE(run.restore_config());
  fs::remove(folder / "config.json");
  EXPECT_TRUE(run.restore_config());
  EXPECT_EQ(read_file_text(folder / "config.json"), text);
}

TEST(RunDirectory, PathThatIsAFileIsAnError) {
  const TemporaryDirectory folder;
  folder.write("file", "");
  EXPECT_THROW(RunDirectory::create(folder / "file", description()), DataError);
  EXPECT_THROW(RunDirectory::create(folder / "file/below", description()), DataError);
}

}  // namespace
}  // namespace terngrad::run_directory_test

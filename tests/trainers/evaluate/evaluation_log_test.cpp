#include "trainers/evaluate/evaluation_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/trainers/event_reader.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::evaluation_log_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::SeenScalar;
using testing::TemporaryDirectory;

const EvaluationSubject kSubject = {
    .dataset = "mnist", .subset = "test", .weights = "ema", .num_examples = 40, .data_fingerprint = "00112233aabbccdd"};
const std::string kChecksum = "0123456789abcdef";
const Evaluation kResult = {.top1 = 0.75, .top5 = 1, .loss = 0.5, .num_examples = 40};

TEST(EvaluationLog, WritesALineAndAnEvent) {
  const TemporaryDirectory folder;
  EvaluationLog log(folder / "a" / "eval", kSubject);
  EXPECT_EQ(log.find(7, kChecksum), nullptr);
  log.write(7, kChecksum, kResult);
  ASSERT_NE(log.find(7, kChecksum), nullptr);
  EXPECT_EQ(log.find(7, kChecksum)->top1, 0.75);
  EXPECT_EQ(read_file_text(folder / "a" / "eval" / "metrics.jsonl"),
            "{\"step\":7,\"kind\":\"test\",\"weights\":\"ema\",\"top1\":0.75,\"top5\":1.0,\"loss\":0.5,\"examples\":40,"
            "\"dataset\":\"mnist\",\"data_fingerprint\":\"00112233aabbccdd\",\"checkpoint\":\"0123456789abcdef\"}\n");
  EXPECT_THAT(testing::seen_scalars(folder / "a" / "eval"),
              ElementsAre(SeenScalar{7, "test/top1", 0.75f}, SeenScalar{7, "test/top5", 1.0f},
                          SeenScalar{7, "test/loss", 0.5f}, SeenScalar{7, "test/examples", 40.0f}));
}

TEST(EvaluationLog, KeepsWhatTheFolderHolds) {
  const TemporaryDirectory folder;
  EvaluationLog(folder.path(), kSubject).write(7, kChecksum, kResult);
  EvaluationLog log(folder.path(), kSubject);
  ASSERT_NE(log.find(7, kChecksum), nullptr);
  EXPECT_EQ(log.find(7, kChecksum)->top1, 0.75);
  EXPECT_EQ(log.find(7, kChecksum)->top5, 1.0);
  EXPECT_EQ(log.find(7, kChecksum)->loss, 0.5);
  EXPECT_EQ(log.find(7, kChecksum)->num_examples, 40);
  log.write(9, kChecksum, kResult);
  EXPECT_EQ(testing::event_files(folder.path()).size(), 2u);
  EXPECT_EQ(testing::seen_scalars(folder.path()).size(), 8u);
}

TEST(EvaluationLog, NanIsReadBackAsNan) {
  const TemporaryDirectory folder;
  Evaluation result = kResult;
  result.loss = std::numeric_limits<double>::infinity();
  EvaluationLog(folder.path(), kSubject).write(7, kChecksum, result);
  EXPECT_TRUE(std::isnan(EvaluationLog(folder.path(), kSubject).find(7, kChecksum)->loss));
}

TEST(EvaluationLog, ResultsOfAnotherSubjectAreRefused) {
  const TemporaryDirectory folder;
  EvaluationLog(folder.path(), kSubject).write(7, kChecksum, kResult);
  const std::string before = read_file_text(folder / "metrics.jsonl");
  std::vector<EvaluationSubject> others(5, kSubject);
  others[0].dataset = "synthetic";
  others[1].subset = "train";
  others[2].weights = "parameters";
  others[3].num_examples = 39;
  others[4].data_fingerprint = "00112233aabbccde";
  for (const EvaluationSubject& other : others) {
    EXPECT_THAT(message_of<UsageError>([&] { EvaluationLog(folder.path(), other); }),
                AllOf(HasSubstr("--eval_dir " + folder.path().string()), HasSubstr(to_string(kSubject)),
                      HasSubstr(to_string(other))));
  }
  EXPECT_EQ(read_file_text(folder / "metrics.jsonl"), before);
  EXPECT_EQ(testing::event_files(folder.path()).size(), 1u);
}

TEST(EvaluationLog, ResultsThatDoNotSayOfWhichDataAreRefused) {
  const TemporaryDirectory folder;
  folder.write("metrics.jsonl",
               "{\"step\":7,\"kind\":\"test\",\"weights\":\"ema\",\"top1\":0.75,\"top5\":1.0,\"loss\":0.5,"
               "\"examples\":40,\"dataset\":\"mnist\",\"checkpoint\":\"0123456789abcdef\"}\n");
  EXPECT_THAT(message_of<UsageError>([&] { EvaluationLog(folder.path(), kSubject); }),
              AllOf(HasSubstr("(data unknown)"), HasSubstr("(data 00112233aabbccdd)")));
}

TEST(EvaluationLog, TwoProcessesCannotShareAFolder) {
  const TemporaryDirectory folder;
  {
    const EvaluationLog first(folder.path(), kSubject);
    EXPECT_THAT(message_of<UsageError>([&] { EvaluationLog(folder.path(), kSubject); }),
                HasSubstr("is in use by another process"));
  }
  EXPECT_NO_THROW(EvaluationLog(folder.path(), kSubject));
}

TEST(EvaluationLog, AnotherCheckpointOfTheSameStepIsRefused) {
  const TemporaryDirectory folder;
  EvaluationLog(folder.path(), kSubject).write(7, kChecksum, kResult);
  const EvaluationLog log(folder.path(), kSubject);
  EXPECT_THAT(message_of<UsageError>([&] { log.find(7, "fedcba9876543210"); }),
              AllOf(HasSubstr("--eval_dir " + folder.path().string()), HasSubstr("step 7")));
  EXPECT_EQ(log.find(8, "fedcba9876543210"), nullptr);
}

TEST(EvaluationLog, ForeignLinesAreAnError) {
  const TemporaryDirectory folder;
  for (const char* line : {"{\"step\":7,\"kind\":\"train\",\"loss\":1}\n", "x\n", "[]\n"}) {
    folder.write("metrics.jsonl", line);
    EXPECT_THAT(message_of<DataError>([&] { EvaluationLog(folder.path(), kSubject); }),
                AllOf(HasSubstr("metrics.jsonl"), HasSubstr("line 1")));
  }
}

TEST(EvaluationLog, AHalfWrittenLineIsCutOff) {
  const TemporaryDirectory folder;
  EvaluationLog(folder.path(), kSubject).write(7, kChecksum, kResult);
  const std::string whole = read_file_text(folder / "metrics.jsonl");
  folder.write("metrics.jsonl", whole + "{\"step\":9,");
  EvaluationLog log(folder.path(), kSubject);
  EXPECT_NE(log.find(7, kChecksum), nullptr);
  EXPECT_EQ(read_file_text(folder / "metrics.jsonl"), whole);
}

TEST(EvaluationSubject, ReadsAsAPhrase) {
  EXPECT_EQ(to_string(kSubject), "ema weights on 40 examples of mnist test (data 00112233aabbccdd)");
}

}  // namespace
}  // namespace terngrad::evaluation_log_test

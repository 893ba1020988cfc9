#include "trainers/loop/training_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "datasets/pipeline.h"
#include "kernels/runtime/errors.h"
#include "tests/support/thread_communicator.h"
#include "tests/trainers/small_training.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/loop/data_fingerprint.h"

namespace terngrad::training_data_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::RowDataset;
using testing::run_ranks;
using testing::small_digits;

/// Joins the shards of all ranks. @returns the data of each rank
std::vector<TrainingData> joined(const std::vector<std::shared_ptr<const Dataset>>& shards, int num_servers = 0) {
  std::vector<TrainingData> data(shards.size());
  const auto errors =
      run_ranks(static_cast<int>(shards.size()), [&](const std::shared_ptr<Communicator>& communicator) {
        const auto rank = static_cast<std::size_t>(communicator->rank());
        data[rank] = join_shards(whole_data(shards[rank]), *communicator, num_servers);
      });
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return data;
}

TEST(TrainingData, WholeIsTheDataSet) {
  const std::shared_ptr<const Dataset> digits = small_digits(20, 12);
  const TrainingData data = whole_data(digits);
  EXPECT_EQ(data.dataset, digits);
  EXPECT_FALSE(data.is_shard);
  EXPECT_EQ(data.num_examples, 20);
  EXPECT_EQ(data.fingerprint, data_fingerprint(*digits));
}

TEST(TrainingData, SummaryHasShapeClassesAndNumbers) {
  const std::shared_ptr<const Dataset> digits = small_digits(20, 12);
  const std::shared_ptr<const Dataset> test = small_digits(5, 12);
  TrainingData data = whole_data(digits);
  EXPECT_EQ(data_summary(data, test.get()),
            "data " + digits->name() + ": 12 x 12 x 1, 10 classes, 20 training and 5 test examples");
  EXPECT_THAT(data_summary(data, nullptr), ::testing::EndsWith("10 classes, 20 training examples"));
  data.is_shard = true;
  data.num_examples = 71;
  EXPECT_THAT(data_summary(data, test.get()),
              ::testing::EndsWith("71 training in shards (20 in this process's) and 5 test examples"));
}

TEST(TrainingData, ShardsAddUpAndHaveOneFingerprint) {
  const std::shared_ptr<const Dataset> few = small_digits(20, 12);
  const std::shared_ptr<const Dataset> more = small_digits(31, 12);
  const std::vector<TrainingData> data = joined({few, more, few});
  for (const TrainingData& own : data) {
    EXPECT_TRUE(own.is_shard);
    EXPECT_EQ(own.num_examples, 71);
    EXPECT_EQ(own.fingerprint, data[0].fingerprint);
  }
  EXPECT_EQ(data[1].dataset, more);
  EXPECT_NE(joined({more, few, few})[0].fingerprint, data[0].fingerprint);
  EXPECT_NE(joined({few, more})[0].fingerprint, data[0].fingerprint);
  EXPECT_NE(joined({few, small_digits(32, 12), few})[0].fingerprint, data[0].fingerprint);
}

TEST(TrainingData, ServersHaveNoShare) {
  const std::shared_ptr<const Dataset> few = small_digits(20, 12);
  const std::shared_ptr<const Dataset> other = small_digits(5, 9);
  const std::vector<TrainingData> data = joined({few, few, other}, 1);
  EXPECT_EQ(data[2].num_examples, 40);
  EXPECT_EQ(data[2].fingerprint, joined({few, few})[0].fingerprint);
}

TEST(TrainingData, ShardsOfOtherImagesAreRefused) {
  const std::string message = message_of<DataError>([] { joined({small_digits(20, 12), small_digits(20, 11)}); });
  EXPECT_THAT(message,
              AllOf(HasSubstr("rank 0 has images of 12x12x1 in 10 classes"), HasSubstr("rank 1 images of 11x11")));
  const auto rows = [](int num_classes) {
    return std::make_shared<RowDataset>(std::vector<std::vector<float>>{{1, 2}}, std::vector<std::int32_t>{0},
                                        num_classes);
  };
  EXPECT_THROW(joined({rows(2), rows(3)}), DataError);
}

/// Two rows with named classes.
class NamedRows final : public RowDataset {
 public:
  explicit NamedRows(std::vector<std::string> names)
      : RowDataset({{1, 2}, {3, 4}}, {0, 1}, static_cast<int>(names.size())), names_(std::move(names)) {}
  std::vector<std::string> class_names() const override { return names_; }

 private:
  std::vector<std::string> names_;
};

TEST(TrainingData, ShardsWhoseLabelsStandForOtherClassesAreRefused) {
  const auto named = [](std::vector<std::string> names) { return std::make_shared<NamedRows>(std::move(names)); };
  EXPECT_EQ(joined({named({"cat", "dog"}), named({"cat", "dog"})})[1].num_examples, 4);
  EXPECT_THAT(message_of<DataError>([&] {
                joined({named({"cat", "dog"}), named({"cat", "dog"}), named({"cat", "fox"})});
              }),
              HasSubstr("class 1 is 'dog' for rank 0 and 'fox' for rank 2"));
  // Servers have no shard.
  EXPECT_EQ(joined({named({"cat", "dog"}), named({"dog", "fox"})}, 1)[0].num_examples, 2);
}

TEST(TrainingData, NamesOfClassesAreInTheFingerprint) {
  const auto fingerprint = [](std::vector<std::string> names) { return data_fingerprint(NamedRows(std::move(names))); };
  EXPECT_EQ(fingerprint({"cat", "dog"}), fingerprint({"cat", "dog"}));
  EXPECT_NE(fingerprint({"cat", "dog"}), fingerprint({"cat", "fox"}));
  EXPECT_NE(fingerprint({"cat", "dog"}), fingerprint({"catd", "og"}));
}

TEST(TrainingData, ShareFoldersAreThoseOfTheScript) {
  EXPECT_EQ(shard_folder("/data/photographs", 1, 3), "/data/photographs/worker_1_of_3");
  EXPECT_EQ(shard_folder("here/", 2, 3), "here/worker_2_of_3");
  EXPECT_EQ(shard_folder("here", 3, 3), "here/worker_0_of_3");
}

TEST(TrainingData, WorkersOfAShareTakeTheirBatchesFromItAlone) {
  TrainerOptions options;
  options.batch_size = 24;
  options.seed = 9;
  const WorkerRange workers{.num_workers = 6, .first_local_worker = 2, .num_local_workers = 4};
  const PipelineOptions joint = pipeline_options(workers, workers, options);
  EXPECT_EQ(joint.batch_size, 24);
  EXPECT_EQ(joint.first_local_worker, 2);
  EXPECT_EQ(joint.seed, 9u);
  options.has_data_shard = true;
  const PipelineOptions own = pipeline_options(workers, workers, options);
  EXPECT_EQ(own.batch_size, 16);
  EXPECT_EQ(own.num_workers, 4);
  EXPECT_EQ(own.first_local_worker, 0);
  EXPECT_EQ(own.num_local_workers, 4);
  const WorkerRange others{.num_workers = 6, .first_local_worker = 0, .num_local_workers = 2};
  const PipelineOptions first = pipeline_options(others, others, options);
  EXPECT_NE(own.seed, first.seed);
  // Each GPU of a process gets its workers' part of the process's data.
  const WorkerRange of_gpu{.num_workers = 6, .first_local_worker = 5, .num_local_workers = 1};
  const PipelineOptions part = pipeline_options(of_gpu, workers, options);
  EXPECT_EQ(part.seed, own.seed);
  EXPECT_EQ(part.batch_size, 16);
  EXPECT_EQ(part.num_workers, 4);
  EXPECT_EQ(part.first_local_worker, 3);
  EXPECT_EQ(part.num_local_workers, 1);
}

}  // namespace
}  // namespace terngrad::training_data_test

#include "trainers/evaluate/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/trainers/small_training.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::evaluate_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::IdentityNet;
using testing::message_of;
using testing::RowDataset;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Evaluates one example of eight classes with these logits.
Evaluation evaluate_one(std::vector<float> logits, std::int32_t label) {
  IdentityNet net(8);
  const RowDataset dataset({std::move(logits)}, {label}, 8);
  const std::vector<float> parameters(static_cast<std::size_t>(net.layout().flat_elements()), 0.0f);
  return evaluate(net, parameters, {}, dataset);
}

TEST(Evaluate, CountsTheRankOfTheLabel) {
  const std::vector<float> logits = {7, 6, 5, 4, 3, 2, 1, 0};
  for (std::int32_t label = 0; label < 8; ++label) {
    const Evaluation one = evaluate_one(logits, label);
    EXPECT_EQ(one.top1, label == 0 ? 1 : 0) << label;
    EXPECT_EQ(one.top5, label < 5 ? 1 : 0) << label;
    EXPECT_EQ(one.num_examples, 1);
  }
}

TEST(Evaluate, TiesAtTheBoundaryAreHits) {
  // Two classes tie for the first place.
  EXPECT_EQ(evaluate_one({9, 9, 1, 1, 1, 1, 1, 1}, 0).top1, 1);
  EXPECT_EQ(evaluate_one({9, 9, 1, 1, 1, 1, 1, 1}, 1).top1, 1);
  // Four logits are greater; the other four tie for the fifth place and all count as hits.
  for (std::int32_t label = 0; label < 8; ++label) {
    EXPECT_EQ(evaluate_one({9, 8, 7, 6, 1, 1, 1, 1}, label).top5, 1) << label;
  }
  // Five logits are greater: classes that tie for the sixth place are no hits.
  EXPECT_EQ(evaluate_one({9, 8, 7, 6, 5, 1, 1, 1}, 5).top5, 0);
}

TEST(Evaluate, NanIsNeverAHit) {
  EXPECT_EQ(evaluate_one(std::vector<float>(8, kNan), 3).top1, 0);
  EXPECT_EQ(evaluate_one(std::vector<float>(8, kNan), 3).top5, 0);
  EXPECT_EQ(evaluate_one({kNan, 1, 1, 1, 1, 1, 1, 1}, 0).top5, 0);
  // A class with NaN ranks before the label.
  EXPECT_EQ(evaluate_one({kNan, 5, 1, 1, 1, 1, 1, 1}, 1).top1, 0);
  EXPECT_EQ(evaluate_one({kNan, 5, 1, 1, 1, 1, 1, 1}, 1).top5, 1);
}

TEST(Evaluate, LossIsTheMeanCrossEntropy) {
  EXPECT_NEAR(evaluate_one(std::vector<float>(8, 3.0f), 2).loss, std::log(8.0), 1e-12);
  // Large logits do not overflow: log(1 + e^-1) for the better of two dominant classes.
  EXPECT_NEAR(evaluate_one({1001, 1000, 0, 0, 0, 0, 0, 0}, 0).loss, std::log1p(std::exp(-1.0)), 1e-12);
  EXPECT_NEAR(evaluate_one({1001, 1000, 0, 0, 0, 0, 0, 0}, 7).loss, 1001 + std::log1p(std::exp(-1.0)), 1e-9);
}

TEST(Evaluate, VisitsEveryExampleOnceWhateverTheBatch) {
  // Example i favours class i mod 8; only the first 300 of 515 examples have this label.
  std::vector<std::vector<float>> rows;
  std::vector<std::int32_t> labels;
  for (int i = 0; i < 515; ++i) {
    std::vector<float> row(8, 0.0f);
    row[static_cast<std::size_t>(i % 8)] = 1.0f;
    rows.push_back(std::move(row));
    labels.push_back(i < 300 ? i % 8 : (i + 1) % 8);
  }
  const RowDataset dataset(rows, labels, 8);
  for (const int threads : {1, 3}) {
    IdentityNet net(8);
    const std::vector<float> parameters(static_cast<std::size_t>(net.layout().flat_elements()), 0.0f);
    const Evaluation all = evaluate(net, parameters, {}, dataset, {.num_threads = threads});
    EXPECT_EQ(all.num_examples, 515);
    EXPECT_DOUBLE_EQ(all.top1, 300.0 / 515);
    EXPECT_DOUBLE_EQ(all.top5, 1.0);  // the others tie for the second place
    EXPECT_EQ(std::accumulate(net.batches.begin(), net.batches.end(), 0), 515);
  }
}

TEST(Evaluate, CallsBackBetweenBatches) {
  const RowDataset dataset(std::vector<std::vector<float>>(515, std::vector<float>(8)), std::vector<std::int32_t>(515),
                           8);
  IdentityNet net(8);
  const std::vector<float> parameters(static_cast<std::size_t>(net.layout().flat_elements()), 0.0f);
  std::size_t calls = 0;
  evaluate(net, parameters, {}, dataset, {.between = [&] { ++calls; }});
  EXPECT_EQ(calls, net.batches.size());
  EXPECT_GT(calls, 1u);
}

TEST(Evaluate, UsesTheParametersGiven) {
  IdentityNet net(8);
  const RowDataset dataset({{0, 1, 0, 0, 0, 0, 0, 0}}, {0}, 8);
  std::vector<float> parameters(static_cast<std::size_t>(net.layout().flat_elements()), 0.0f);
  EXPECT_EQ(evaluate(net, parameters, {}, dataset).top1, 0);
  parameters[0] = 2.0f;
  EXPECT_EQ(evaluate(net, parameters, {}, dataset).top1, 1);
}

TEST(Evaluate, HandsTheStateToTheNet) {
  IdentityNet net(8);
  const std::vector<float> parameters(static_cast<std::size_t>(net.layout().flat_elements()), 0.0f);
  const std::vector<float> state = {3, 4};
  evaluate(net, parameters, state, RowDataset({std::vector<float>(8)}, {0}, 8));
  EXPECT_EQ(net.last_state, state);
}

TEST(Evaluate, EmptySetGivesZeros) {
  IdentityNet net(8);
  const Evaluation none = evaluate(net, {}, {}, RowDataset({}, {}, 8));
  EXPECT_EQ(none.num_examples, 0);
  EXPECT_EQ(none.top1, 0);
  EXPECT_EQ(none.loss, 0);
}

TEST(Evaluate, SetThatDoesNotFitTheNetIsRefused) {
  IdentityNet net(8);
  const std::string message = message_of<InvalidArgument>([&] {
    evaluate(net, {}, {}, RowDataset({{0, 0, 0}}, {0}, 3));
  });
  EXPECT_THAT(message, AllOf(HasSubstr("identity"), HasSubstr("1x8x1"), HasSubstr("rows"), HasSubstr("1x3x1")));
  EXPECT_THROW(evaluate(net, {}, {}, RowDataset({std::vector<float>(8)}, {0}, 9)), InvalidArgument);
}

TEST(Evaluate, TextHasFourDecimals) {
  EXPECT_EQ(to_string(Evaluation{.top1 = 0.99125, .top5 = 1, .loss = 3, .num_examples = 10000}),
            "top-1 = 0.9912 top-5 = 1.0000 [10000 examples]");
  EXPECT_EQ(to_string(Evaluation{}), "top-1 = 0.0000 top-5 = 0.0000 [0 examples]");
}

/// Prediction for one example of eight classes; true if it is a hit.
std::pair<std::int32_t, bool> predict_one(std::vector<float> logits, std::int32_t label) {
  IdentityNet net(8);
  const RowDataset dataset({std::move(logits)}, {label}, 8);
  const std::vector<float> parameters(static_cast<std::size_t>(net.layout().flat_elements()), 0.0f);
  std::vector<std::int32_t> predicted(1, 99);
  const Evaluation evaluation = evaluate(net, parameters, {}, dataset, {.predicted = predicted});
  return {predicted[0], evaluation.top1 == 1};
}

TEST(Evaluate, PredictionsAreTheLargestLogitsAndAgreeWithTheHits) {
  using Found = std::pair<std::int32_t, bool>;
  EXPECT_EQ(predict_one({0, 1, 7, 2, 0, 0, 0, 0}, 2), Found(2, true));
  EXPECT_EQ(predict_one({0, 1, 7, 2, 0, 0, 0, 0}, 3), Found(2, false));
  // Among equal logits the label wins, else the first class.
  EXPECT_EQ(predict_one({0, 7, 7, 7, 0, 0, 0, 0}, 3), Found(3, true));
  EXPECT_EQ(predict_one({0, 7, 7, 7, 0, 0, 0, 0}, 0), Found(1, false));
  EXPECT_EQ(predict_one({0, kNan, 7, 0, 0, 0, 0, 0}, 2), Found(kNoClass, false));
  EXPECT_EQ(predict_one({0, kNan, 7, 0, 0, 0, 0, 0}, 1), Found(kNoClass, false));
}

TEST(Evaluate, PredictionsAreInOrderOfTheSet) {
  std::vector<std::vector<float>> rows;
  std::vector<std::int32_t> expected;
  for (int i = 0; i < 515; ++i) {
    std::vector<float> row(8, 0.0f);
    row[static_cast<std::size_t>(i * i % 8)] = 1.0f;
    rows.push_back(std::move(row));
    expected.push_back(i * i % 8);
  }
  const RowDataset dataset(rows, std::vector<std::int32_t>(515, 1), 8);
  IdentityNet net(8);
  const std::vector<float> parameters(static_cast<std::size_t>(net.layout().flat_elements()), 0.0f);
  std::vector<std::int32_t> predicted(515);
  const Evaluation evaluation = evaluate(net, parameters, {}, dataset, {.num_threads = 3, .predicted = predicted});
  EXPECT_EQ(predicted, expected);
  EXPECT_DOUBLE_EQ(evaluation.top1, static_cast<double>(std::ranges::count(predicted, 1)) / 515);
  predicted.resize(514);
  EXPECT_THROW(evaluate(net, parameters, {}, dataset, {.num_threads = 3, .predicted = predicted}), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::evaluate_test

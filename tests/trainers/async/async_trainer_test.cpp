#include "trainers/async/async_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>

#include "kernels/runtime/errors.h"
#include "kernels/tensor/transform.h"
#include "tests/nets/branched_net.h"
#include "tests/support/bits.h"
#include "tests/support/thread_mailbox.h"
#include "tests/trainers/expected_identity.h"
#include "tests/trainers/small_async.h"
#include "tests/trainers/temporary_directory.h"
#include "tests/trainers/tensor_transform.h"
#include "trainers/hooks/checkpoint_hook.h"
#include "trainers/hooks/interval.h"
#include "trainers/hooks/metrics_hook.h"
#include "trainers/io/atomic_file.h"
#include "trainers/run/training_state.h"

namespace terngrad::async_trainer_test {
namespace {

using ::testing::AllOf;
using testing::bits_of;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::make_small_async;
using testing::make_small_net;
using testing::make_small_rank;
using testing::make_small_trainer;
using testing::only_transform;
using testing::SmallAsync;
using testing::SmallRun;
using testing::TemporaryDirectory;

std::vector<std::uint32_t> result_of(const SmallAsync& async) {
  const auto trainer = make_small_async(async);
  trainer->run();
  return testing::state_bits(*trainer);
}

TEST(AsyncTrainer, OneWorkerHasTheBitsOfASynchronousRun) {
  for (const char* codec : {"fp32", "bf16", "ternary"}) {
    const SmallRun run{.codec = codec, .net = test::branched_net(0.6f)};
    const auto synchronous = make_small_trainer(run);
    synchronous->run();
    EXPECT_EQ(result_of({.run = run}), testing::state_bits(*synchronous)) << codec;
  }
}

/// Reference of gradient descent with N workers in turns: worker w's gradient belongs to the parameters after its
/// previous push.
TEST(AsyncTrainer, FollowsTheRuleByHand) {
  const SmallRun run{.num_workers = 3, .total_steps = 4, .batch_size = 6, .weight_decay = 0};
  const SmallAsync async{.run = run, .optimizer = "gd", .scale = 0.75f};
  const auto trainer = make_small_async(async);
  trainer->run();

  const auto digits = testing::small_digits(40, testing::kSmallImage);
  std::vector<std::unique_ptr<Net>> nets;
  for (int worker = 0; worker < 3; ++worker) nets.push_back(make_small_net(run, worker));
  const Layout& layout = nets[0]->layout();
  Buffer<float> parameters = zeros<float>(layout.flat_elements());
  nets[0]->initialize(run.seed, parameters.span());
  std::vector<std::vector<float>> pulled(3, {parameters.span().begin(), parameters.span().end()});
  PipelineOptions examples;
  examples.batch_size = 6;
  examples.num_workers = 3;
  examples.num_local_workers = 3;
  Pipeline pipeline(digits, examples);
  const Schedule schedule{.kind = ScheduleKind::kPolynomial, .initial_rate = run.learning_rate, .total_steps = 4};
  Buffer<float> gradient = zeros<float>(layout.flat_elements());
  for (std::uint64_t step = 0; step < 4; ++step) {
    const PipelineBatch batch = pipeline.next();
    const auto rate = static_cast<float>(schedule.rate(static_cast<std::int64_t>(step)));
    for (std::size_t worker = 0; worker < 3; ++worker) {
      const std::size_t pixels = batch.images.size() / 3;
      std::array<float*, 1> gradients = {gradient.data()};
      std::array<WorkerLoss, 1> losses;
      nets[worker]->compute_gradients(pulled[worker],
                                      {.images = batch.images.subspan(worker * pixels, pixels),
                                       .labels = batch.labels.subspan(worker * 2, 2),
                                       .step = step},
                                      gradients, losses);
      for (const Segment& segment : layout.segments()) {
        for (std::int64_t i = segment.offset; i < segment.offset + segment.num_elements; ++i) {
          const float scaled = gradient.data()[i] * 0.75f;
          const float change = rate * scaled;
          parameters.data()[i] -= change;
        }
      }
      std::ranges::copy(parameters.span(), pulled[worker].begin());
    }
  }
  EXPECT_EQ(bits_of(trainer->parameters()), bits_of(parameters.span()));
}

TEST(AsyncTrainer, StalenessIsThatOfWorkersInTurn) {
  const auto trainer = make_small_async({.run = {.num_workers = 4, .codec = "ternary", .total_steps = 5}});
  trainer->run();
  // Staleness 0, 1, 2 and 3 in the first round, then always 3.
  EXPECT_EQ(trainer->push_counts(), (PushCounts{.staleness = {{0, 1}, {1, 1}, {2, 1}, {3, 17}}}));
}

TEST(AsyncTrainer, StalePushesAreDroppedCountedAndTheirWorkersPullAfresh) {
  const auto trainer =
      make_small_async({.run = {.num_workers = 4, .codec = "ternary", .total_steps = 5}, .max_staleness = 2});
  std::vector<std::uint64_t> dropped;
  trainer->add_hook(every_steps(1, [&](const TrainingView&, const StepView& step) {
    dropped.push_back(step.pushes->dropped);
    EXPECT_EQ(step.pushes->total(), 4u);
    return HookVerdict::kContinue;
  }));
  trainer->run();
  // Worker 3 always has staleness 3, so its pushes are dropped; the others have 0, 1 and 2, later always 2.
  EXPECT_THAT(dropped, Each(1u));
  EXPECT_EQ(trainer->push_counts(), (PushCounts{.staleness = {{0, 1}, {1, 1}, {2, 13}, {3, 5}}, .dropped = 5}));
  EXPECT_EQ(trainer->push_counts().total(), 20u);
}

TEST(AsyncTrainer, WithoutAnyStalenessTheFirstWorkerTrainsAlone) {
  const SmallRun run{.num_workers = 2, .codec = "ternary", .total_steps = 3, .batch_size = 4, .learning_rate = 0.02};
  const auto trainer = make_small_async({.run = run, .max_staleness = 0});
  trainer->run();
  EXPECT_EQ(trainer->push_counts(), (PushCounts{.staleness = {{0, 3}, {1, 3}}, .dropped = 3}));
  // A dropped push has no effect, whatever its gradient.
  SmallAsync other{.run = run, .max_staleness = 0};
  other.run.transforms = [calls = 0](const Net& net) mutable {
    const bool is_other = calls++ == 1;
    return only_transform(net.layout(), [is_other](int, std::span<float> gradient) {
      if (is_other) std::ranges::fill(gradient, 1.0f);
    });
  };
  const auto with_others = make_small_async(other);
  with_others->run();
  EXPECT_EQ(bits_of(with_others->parameters()), bits_of(trainer->parameters()));
}

TEST(AsyncTrainer, ThreadsChangeNothing) {
  SmallAsync async{.run = {.num_workers = 4, .codec = "ternary", .batch_size = 4, .net = test::branched_net(0.6f)}};
  const auto one = result_of(async);
  async.run.num_threads = 3;
  async.run.num_data_threads = 2;
  EXPECT_EQ(result_of(async), one);
}

TEST(AsyncTrainer, ParametersMayTravelRounded) {
  const SmallRun run{.num_workers = 2, .codec = "ternary"};
  const auto whole = result_of({.run = run});
  const auto rounded = result_of({.run = run, .parameters = FloatCodec::Width::kBfloat16});
  EXPECT_NE(whole, rounded);
}

TEST(AsyncTrainer, ReportsItsSteps) {
  const auto trainer = make_small_async({.run = {.num_workers = 2, .codec = "ternary", .total_steps = 3}});
  int steps = 0;
  trainer->add_hook(every_steps(1, [&](const TrainingView& training, const StepView& step) {
    EXPECT_EQ(step.step, static_cast<std::uint64_t>(steps++));
    EXPECT_EQ(training.num_local_workers, 2);
    EXPECT_GT(step.loss, 0);
    EXPECT_GT(step.report.gradient.sent, 0);
    EXPECT_GT(step.report.mean.received, 2 * 4 * training.net.layout().num_elements());
    // The servers receive what the workers send, and vice versa.
    EXPECT_EQ(step.report.servers.sent, step.report.mean.received);
    EXPECT_EQ(step.report.servers.received, step.report.gradient.sent);
    EXPECT_EQ(step.report.mean.sent + step.report.gradient.received, 0);
    EXPECT_EQ(step.report.num_workers, 2);
    EXPECT_EQ(step.report.num_servers, 1);
    const TensorTelemetry telemetry = step.telemetry(0);
    EXPECT_GT(telemetry.scaler, 0);
    EXPECT_GT(telemetry.norm, 0);
    EXPECT_FALSE(step.mean) << "pushes are applied one by one";
    return HookVerdict::kContinue;
  }));
  EXPECT_EQ(trainer->run(), 3u);
  EXPECT_EQ(steps, 3);
}

SmallAsync poisoned(OnNonfinite policy) {
  SmallAsync async{.run = {.num_workers = 2,
                           .codec = "ternary",
                           .on_nonfinite = policy,
                           .total_steps = 4,
                           .net = test::branched_net(0.6f)}};
  // The worker's third gradient is NaN in tensor 1.
  async.run.transforms = [](const Net& net) {
    return only_transform(net.layout(), [calls = 0](int segment, std::span<float> gradient) mutable {
      if (segment == 1 && calls++ == 2) gradient[0] = std::numeric_limits<float>::quiet_NaN();
    });
  };
  return async;
}

TEST(AsyncTrainer, StopsOnNaN) {
  const auto trainer = make_small_async(poisoned(OnNonfinite::kStop));
  const std::string tensor = trainer->net().layout().segment(1).name;
  try {
    trainer->run();
    ADD_FAILURE() << "continued";
  } catch (const NonFiniteError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("step 2"), HasSubstr("'" + tensor + "' of worker 0")));
  }
}

TEST(AsyncTrainer, SkipsPushesWithNaN) {
  const auto trainer = make_small_async(poisoned(OnNonfinite::kSkip));
  std::vector<std::string> texts;
  trainer->add_hook(every_steps(1, [&](const TrainingView&, const StepView& step) {
    texts.push_back(step.report.nonfinite);
    // Both pushes of that step are skipped, so nothing is applied.
    EXPECT_EQ(step.report.skipped, step.step == 2);
    return HookVerdict::kContinue;
  }));
  trainer->run();
  EXPECT_EQ(trainer->push_counts().skipped, 2u);
  EXPECT_THAT(texts, ::testing::ElementsAre("", "", HasSubstr("of worker 0 holds NaN"), ""));
  // As if the skipped pushes did not exist, also for the state of the nets.
  Stream stream(Device::cpu(), 1);
  EXPECT_TRUE(all_finite(trainer->parameters(), stream));
}

TEST(AsyncTrainer, CountsTensorsWithNaNAsZero) {
  const auto trainer = make_small_async(poisoned(OnNonfinite::kZero));
  trainer->run();
  EXPECT_EQ(trainer->push_counts().skipped, 0u);
  Stream stream(Device::cpu(), 1);
  EXPECT_TRUE(all_finite(trainer->parameters(), stream));
}

TEST(AsyncTrainer, GradientsThatOverflowByTheirScaleAreNotApplied) {
  SmallAsync async{.run = {.num_workers = 1, .on_nonfinite = OnNonfinite::kSkip, .total_steps = 2}, .scale = 3e38f};
  async.run.transforms = [](const Net& net) {
    return only_transform(net.layout(), [](int, std::span<float> gradient) { std::ranges::fill(gradient, 10.0f); });
  };
  const auto trainer = make_small_async(async);
  const auto before = bits_of(trainer->parameters());
  trainer->run();
  EXPECT_EQ(trainer->push_counts().skipped, 2u);
  EXPECT_EQ(bits_of(trainer->parameters()), before);
}

// Contract B4, for a run stopped before its first step.
TEST(AsyncTrainer, ContinuesFromTheCheckpointOfItsStart) {
  SmallAsync async{.run = {.num_workers = 3, .codec = "ternary", .total_steps = 4, .batch_size = 6}};
  const TemporaryDirectory folder;
  CheckpointState state;
  state.net = "lenet";
  ProgressDisplay display(stderr, ProgressDisplay::Mode::kSilent);
  const auto whole = make_small_async(async);
  whole->add_hook(std::make_unique<CheckpointHook>(
      CheckpointHookOptions{.folder = Folder(folder.path()), .save_steps = 100, .save_at_start = true}, state, [] {},
      display));
  whole->run();
  const auto resumed = make_small_async(async);
  restore(load_checkpoint(checkpoint_path(folder.path(), 0)), testing::expected_identity(state), 4, *resumed);
  resumed->run();
  EXPECT_EQ(testing::state_bits(*resumed), testing::state_bits(*whole));
}

// Contract B4.
TEST(AsyncTrainer, ContinuesFromItsCheckpoints) {
  for (const auto width : {FloatCodec::Width::kFloat32, FloatCodec::Width::kBfloat16}) {
    SmallAsync async{.run = {.num_workers = 3,
                             .codec = "ternary",
                             .total_steps = 7,
                             .batch_size = 6,
                             .net = test::branched_net(0.6f)},
                     .max_staleness = 1,
                     .parameters = width};
    const TemporaryDirectory folder;
    CheckpointState state;
    state.net = "branched";
    ProgressDisplay display(stderr, ProgressDisplay::Mode::kSilent);
    const auto save_in = [&](Trainer& trainer, const std::filesystem::path& path) {
      trainer.add_hook(std::make_unique<CheckpointHook>(
          CheckpointHookOptions{.folder = Folder(path), .save_steps = 3}, state, [] {}, display));
    };
    const auto whole = make_small_async(async);
    save_in(*whole, folder.path());
    whole->run();
    const Checkpoint checkpoint = load_checkpoint(checkpoint_path(folder.path(), 3));
    const auto resumed = make_small_async(async);
    restore(checkpoint, testing::expected_identity(state), 7, *resumed);
    const TemporaryDirectory other;
    save_in(*resumed, other.path());
    resumed->run();
    EXPECT_EQ(testing::state_bits(*resumed), testing::state_bits(*whole));
    EXPECT_EQ(resumed->push_counts(), whole->push_counts());
    const auto last = [](const TemporaryDirectory& path) {
      const Checkpoint end = load_checkpoint(checkpoint_path(path.path(), 7));
      return std::vector<std::byte>(end.content().begin(), end.content().end());
    };
    EXPECT_EQ(last(folder), last(other));
  }
}

TEST(AsyncTrainer, MetricsTellTheStalenessOfAnInterval) {
  const TemporaryDirectory folder;
  const auto trainer =
      make_small_async({.run = {.num_workers = 2, .codec = "ternary", .total_steps = 4}, .max_staleness = 0});
  MetricsWriter metrics(folder.path() / "metrics.jsonl");
  trainer->add_hook(make_metrics_hook(metrics, 2, 0));
  trainer->run();
  std::istringstream lines(read_file_text(folder.path() / "metrics.jsonl"));
  std::vector<nlohmann::json> records;
  for (std::string line; std::getline(lines, line);) records.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(records.size(), 2u);
  std::uint64_t pushes = 0;
  for (const nlohmann::json& record : records) {
    double sum = 0;
    std::uint64_t here = 0;
    for (const auto& [staleness, count] : record.at("staleness").items()) {
      sum += std::stod(staleness) * count.get<double>();
      here += count.get<std::uint64_t>();
    }
    EXPECT_EQ(here, 4u);
    EXPECT_DOUBLE_EQ(record.at("mean_staleness").get<double>(), sum / 4);
    pushes += here - record.at("dropped_pushes").get<std::uint64_t>();
    EXPECT_EQ(record.at("skipped_pushes"), 0);
  }
  EXPECT_EQ(pushes, trainer->push_counts().applied());
}

TEST(AsyncTrainer, AnIntervalWithPushesComesBackFromText) {
  Interval interval;
  interval.steps = 3;
  interval.pushes = {.staleness = {{0, 2}, {3, 4}}, .dropped = 1};
  EXPECT_EQ(parse_interval(interval.to_text()).pushes, interval.pushes);
  EXPECT_THROW(parse_interval(interval.to_text() + " 1"), DataError);
}

/// Results of a run on ranks that are threads.
struct RanksResult {
  std::uint64_t server_steps = 0;
  std::vector<std::uint64_t> rank_steps;
  PushCounts counts;
  std::vector<double> losses;
  std::vector<std::uint32_t> parameters;
};

RanksResult run_over_ranks(
    SmallAsync async, int size, const std::function<void(AsyncTrainer&)>& prepare = {},
    const std::function<bool(int rank)>& asks_to_stop = [](int) { return false; }) {
  RanksResult result;
  result.rank_steps.resize(static_cast<std::size_t>(size));
  const auto errors = testing::run_mailboxes(std::make_shared<testing::PostOffice>(size), [&](const auto& mailbox) {
    SmallAsync own = async;
    own.mailbox = mailbox;
    if (mailbox->rank() == 0) {
      const auto trainer = make_small_async(own);
      if (prepare) prepare(*trainer);
      trainer->add_hook(std::make_unique<testing::LossRecorder>(result.losses));
      result.server_steps = trainer->run();
      result.counts = trainer->push_counts();
      result.parameters = bits_of(trainer->parameters());
    } else {
      const auto rank = make_small_rank(own);
      result.rank_steps[static_cast<std::size_t>(mailbox->rank())] =
          rank->run([&] { return asks_to_stop(mailbox->rank()); });
    }
  });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return result;
}

TEST(AsyncTrainerRanks, OneWorkerOnARankOfItsOwnHasTheBitsOfASynchronousRun) {
  const SmallRun run{.codec = "ternary"};
  const auto synchronous = make_small_trainer(run);
  synchronous->run();
  const RanksResult result = run_over_ranks({.run = run}, 2);
  EXPECT_EQ(result.parameters, bits_of(synchronous->parameters()));
  EXPECT_EQ(result.counts, (PushCounts{.staleness = {{0, 6}}}));
}

TEST(AsyncTrainerRanks, CountEveryPushAndEndTogether) {
  for (const int size : {2, 3, 5}) {
    const RanksResult result = run_over_ranks({.run =
                                                   {
                                                       .num_workers = 4,
                                                       .codec = "ternary",
                                                       .total_steps = 8,
                                                       .net = test::branched_net(0.6f),
                                                   }},
                                              size);
    EXPECT_EQ(result.server_steps, 8u);
    EXPECT_EQ(result.counts.total(), 32u);
    EXPECT_EQ(result.losses.size(), 8u);
    for (int rank = 1; rank < size; ++rank) EXPECT_EQ(result.rank_steps[static_cast<std::size_t>(rank)], 8u);
  }
}

TEST(AsyncTrainerRanks, AWorkerMayAskToStop) {
  std::vector<bool> stops_now;
  const RanksResult result = run_over_ranks(
      {.run = {.num_workers = 2, .codec = "ternary", .total_steps = 100000}}, 3,
      [&](AsyncTrainer& trainer) {
        trainer.add_hook(every_steps(1, [&](const TrainingView& training, const StepView&) {
          stops_now.push_back(training.stops_now);
          return HookVerdict::kContinue;
        }));
      },
      [pushes = 0](int rank) mutable { return rank == 2 && ++pushes > 5; });
  EXPECT_LT(result.server_steps, 100000u);
  ASSERT_FALSE(stops_now.empty());
  EXPECT_TRUE(stops_now.back());
  EXPECT_EQ(std::ranges::count(stops_now, true), 1);
}

TEST(AsyncTrainerRanks, ARunThatIsDoneSendsItsWorkersHome) {
  const RanksResult result = run_over_ranks({.run = {.num_workers = 2, .total_steps = 3}}, 3,
                                            [](AsyncTrainer& trainer) { trainer.set_steps_done(3); });
  EXPECT_EQ(result.server_steps, 3u);
  EXPECT_EQ(result.rank_steps[1], 3u);
  EXPECT_EQ(result.counts.total(), 0u);
}

TEST(AsyncTrainerRanks, ContinueWhereTheCheckpointSays) {
  const SmallAsync async{
      .run = {.num_workers = 2, .codec = "ternary", .total_steps = 6, .net = test::branched_net(0.6f)}};
  const TemporaryDirectory folder;
  CheckpointState state;
  state.net = "branched";
  ProgressDisplay display(stderr, ProgressDisplay::Mode::kSilent);
  run_over_ranks(async, 3, [&](AsyncTrainer& trainer) {
    trainer.add_hook(std::make_unique<CheckpointHook>(
        CheckpointHookOptions{.folder = Folder(folder.path()), .save_steps = 4}, state, [] {}, display));
  });
  const Checkpoint checkpoint = load_checkpoint(checkpoint_path(folder.path(), 4));
  const auto pushes_of = [](const Checkpoint& saved) {
    std::istringstream in(saved.state().extra_metadata.at("async_pushes"));
    std::uint64_t a = 0;
    std::uint64_t b = 0;
    in >> a >> b;
    return a + b;
  };
  EXPECT_EQ(pushes_of(checkpoint), 8u);
  // With ranks, and in one process. Pulled parameters are not saved, so workers pull from scratch.
  const RanksResult on_ranks = run_over_ranks(
      async, 2, [&](AsyncTrainer& trainer) { restore(checkpoint, testing::expected_identity(state), 6, trainer); });
  EXPECT_EQ(on_ranks.counts.total(), 12u);
  const auto alone = make_small_async(async);
  restore(checkpoint, testing::expected_identity(state), 6, *alone);
  alone->run();
  EXPECT_EQ(alone->push_counts().total(), 12u);
}

}  // namespace
}  // namespace terngrad::async_trainer_test

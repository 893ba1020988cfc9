#include "trainers/loop/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/support/thread_communicator.h"
#include "tests/trainers/small_training.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/io/atomic_file.h"

namespace terngrad::trace_test {
namespace {

using ::testing::IsEmpty;
using testing::make_small_trainer;
using testing::run_ranks;
using ::testing::SizeIs;
using testing::SmallRun;
using testing::TemporaryDirectory;
using Json = nlohmann::json;

Json events_of(const Trace& trace) { return Json::parse("[" + trace.to_json(3, "rank 3 on node1") + "]"); }

/// Events other than names of processes and threads.
std::vector<Json> told(const Json& events) {
  std::vector<Json> result;
  std::ranges::copy_if(events, std::back_inserter(result), [](const Json& event) { return event["ph"] != "M"; });
  return result;
}

void begin_steps(Trace& trace, std::uint64_t count) {
  for (std::uint64_t i = 1; i <= count; ++i) trace.begin_step(i);
}

TEST(Trace, RecordsItsStepsAlone) {
  Trace trace(2);
  const auto now = Trace::Clock::now();
  std::vector<std::size_t> found;
  for (int step = 0; step < 7; ++step) {
    EXPECT_EQ(trace.begins_next(), step == 3);
    EXPECT_EQ(trace.has_ended(), step >= 5);
    trace.begin_step(static_cast<std::uint64_t>(step));
    trace.add(Trace::Row::kStep, "data", now, now);
    trace.mark(Trace::Row::kTensors, "weights");
    found.push_back(told(events_of(trace)).size());
  }
  EXPECT_THAT(found, ::testing::ElementsAre(0, 0, 0, 2, 4, 4, 4));
  EXPECT_THROW(Trace(0), InvalidArgument);
}

TEST(Trace, WritesWhatViewersRead) {
  Trace trace(1);
  begin_steps(trace, Trace::kWarmUpSteps);
  trace.set_origin();
  const auto begin = Trace::Clock::now();
  trace.begin_step(41);
  trace.add(Trace::Row::kExchange, "bucket \"0\"", begin, begin + std::chrono::milliseconds(2), {{"sent_bytes", 12}});
  trace.mark(Trace::Row::kTensors, "conv1/weights");
  const Json events = events_of(trace);
  std::map<int, std::string> rows;
  for (const Json& event : events) {
    EXPECT_EQ(event["pid"], 3);
    if (event["name"] == "process_name") {
      EXPECT_EQ(event["args"]["name"], "rank 3 on node1");
    }
    if (event["name"] == "thread_name") rows[event["tid"].get<int>()] = event["args"]["name"].get<std::string>();
  }
  EXPECT_EQ(rows, (std::map<int, std::string>{{0, "step"}, {1, "exchange"}, {2, "tensors"}}));
  const std::vector<Json> found = told(events);
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0]["name"], "bucket \"0\"");
  EXPECT_EQ(found[0]["ph"], "X");
  EXPECT_EQ(found[0]["tid"], 1);
  EXPECT_NEAR(found[0]["dur"].get<double>(), 2000, 1e-6);
  EXPECT_GE(found[0]["ts"].get<double>(), 0);
  EXPECT_LT(found[0]["ts"].get<double>(), 10e6);
  EXPECT_EQ(found[0]["args"], (Json{{"sent_bytes", 12}, {"step", 41}}));
  EXPECT_EQ(found[1]["ph"], "i");
  EXPECT_EQ(found[1]["tid"], 2);
  EXPECT_EQ(found[1]["args"], (Json{{"step", 41}}));
}

TEST(Trace, IsInOrderWithTheLongerSliceFirst) {
  Trace trace(1);
  begin_steps(trace, Trace::kWarmUpSteps + 1);
  const auto begin = Trace::Clock::now();
  const auto later = begin + std::chrono::milliseconds(1);
  trace.add(Trace::Row::kStep, "compute", later, later + std::chrono::milliseconds(1));
  trace.add(Trace::Row::kStep, "data", begin, later);
  trace.add(Trace::Row::kStep, "step", begin, begin + std::chrono::milliseconds(2));
  std::vector<std::string> names;
  for (const Json& event : told(events_of(trace))) names.push_back(event["name"].get<std::string>());
  EXPECT_THAT(names, ::testing::ElementsAre("step", "data", "compute"));
}

TEST(Trace, SpansMayHaveNoTrace) {
  Trace trace(1);
  begin_steps(trace, Trace::kWarmUpSteps + 1);
  { const TraceSpan span(nullptr, Trace::Row::kStep, "nowhere"); }
  EXPECT_THAT(told(events_of(trace)), IsEmpty());
  { const TraceSpan span(&trace, Trace::Row::kStep, "compute"); }
  EXPECT_THAT(told(events_of(trace)), SizeIs(1));
}

/// Trace file of a run on two ranks.
Json traced(bool overlap, std::uint64_t num_steps, std::uint64_t total_steps) {
  const TemporaryDirectory folder;
  const auto errors = run_ranks(2, [&](const std::shared_ptr<Communicator>& communicator) {
    Trace trace(num_steps);
    SmallRun run{.num_workers = 2, .codec = "ternary", .total_steps = total_steps};
    run.communicator = communicator;
    run.bucket_bytes = 10000;
    run.overlap = overlap;
    run.trace = &trace;
    const std::unique_ptr<Trainer> trainer = make_small_trainer(run);
    const auto on_error = [](const std::string& message) { ADD_FAILURE() << message; };
    trainer->add_hook(
        make_trace_hook(trace, "rank " + std::to_string(communicator->rank()), Folder(folder.path()), on_error));
    trainer->run();
  });
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return Json::parse(read_file_text(folder / "trace.json"))["traceEvents"];
}

TEST(Trace, ShowsBucketsInARowOfTheirOwn) {
  const std::vector<Json> found = told(traced(true, 2, 6));
  for (int rank = 0; rank < 2; ++rank) {
    std::map<std::string, int> times;
    std::multiset<std::string> buckets;
    std::set<int> steps;
    for (const Json& event : found) {
      if (event["pid"] != rank) continue;
      const auto name = event["name"].get<std::string>();
      steps.insert(event["args"]["step"].get<int>());
      if (event["tid"] == 0) ++times[name];
      if (event["tid"] == 1) {
        buckets.insert(name);
        EXPECT_GT(event["args"]["sent_bytes"], 0);
      }
      if (event["tid"] == 2) {
        EXPECT_THAT(name, ::testing::EndsWith(", worker " + std::to_string(rank)));
      }
    }
    EXPECT_EQ(
        times,
        (std::map<std::string, int>{
            {"step", 2}, {"data", 2}, {"compute", 2}, {"wait for the exchange", 2}, {"update", 2}, {"summary", 2}}));
    EXPECT_EQ(steps, (std::set<int>{4, 5})) << "after three that are left out";
    EXPECT_EQ(buckets.count("bucket 0"), 2u);
    EXPECT_GT(buckets.size(), 2u);
  }
}

TEST(Trace, ShowsTheExchangeAfterTheComputation) {
  const std::vector<Json> found = told(traced(false, 1, 6));
  std::vector<std::string> names;
  for (const Json& event : found) {
    if (event["pid"] == 1) names.push_back(event["name"].get<std::string>());
  }
  EXPECT_THAT(names, ::testing::ElementsAre("step", "data", "compute", "exchange", "update", "summary"));
}

TEST(Trace, ThatCannotBeWrittenEndsNoRun) {
  const TemporaryDirectory folder;
  Trace trace(1);
  SmallRun run{.total_steps = 5};
  run.trace = &trace;
  const std::unique_ptr<Trainer> trainer = make_small_trainer(run);
  std::filesystem::create_directory(folder / "nowhere");
  const Folder nowhere(folder / "nowhere");
  std::filesystem::remove(folder / "nowhere");
  std::vector<std::string> messages;
  trainer->add_hook(
      make_trace_hook(trace, "rank 0", nowhere, [&](const std::string& message) { messages.push_back(message); }));
  EXPECT_EQ(trainer->run(), 5u);
  EXPECT_THAT(messages, ::testing::ElementsAre(::testing::HasSubstr("trace.json")));
}

TEST(Trace, OfARunThatEndsBeforeIsWritten) {
  EXPECT_THAT(told(traced(false, 10, 2)), IsEmpty());
  EXPECT_THAT(told(traced(false, 10, 5)), SizeIs(2 * 2 * 6));
}

}  // namespace
}  // namespace terngrad::trace_test

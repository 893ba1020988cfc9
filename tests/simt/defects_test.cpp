// Each defect is detected by the builds that can detect it; correct kernels pass in all builds. Each kernel runs in its
// own process, which a sanitizer or the emulation may end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <ostream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace terngrad::defects_test {
namespace {

using ::testing::HasSubstr;

// Signs of a defect other than messages of sanitizers and of the emulation.
constexpr const char* kOtherOrder = "another result in another order";
constexpr const char* kUndefined = "undefined values in the result";
constexpr const char* kSignal = "ended by a signal";
constexpr const char* kUnseen = nullptr;
constexpr const char* kRace = "ThreadSanitizer: data race";

/// Expected sign of a defect in three builds: without sanitizers, with the address and undefined-behaviour sanitizers,
/// with the thread sanitizer.
struct Expectation {
  const char* name;
  const char* plain;
  const char* address;
  const char* thread;
};

// GoogleTest would print bytes, which contain addresses and differ from run to run.
void PrintTo(const Expectation& expectation, std::ostream* out) { *out << expectation.name; }

constexpr Expectation kExpectations[] = {
    // Out of bounds. The overwritten memory is random, so other builds cannot detect it.
    {"global_write", kUnseen, "AddressSanitizer: heap-buffer-overflow", kUnseen},
    {"global_vector_read", kUnseen, "AddressSanitizer: heap-buffer-overflow", kUnseen},
    {"freed_memory", kUnseen, "AddressSanitizer: heap-use-after-free", "ThreadSanitizer: heap-use-after-free"},
    {"static_shared", kUnseen, "runtime error: index 64 out of bounds", kUnseen},
    {"shared_by_pointer", kUnseen, "runtime error: store to address", kUnseen},
    {"dynamic_shared", kUnseen, "AddressSanitizer: heap-buffer-overflow", kUnseen},
    {"local_array", kUnseen, "runtime error: index 8 out of bounds", kUnseen},
    {"stack_overflow", kSignal, "AddressSanitizer: stack-overflow", kSignal},
    // Undefined behaviour and undefined values.
    {"misaligned_vector", kUnseen, "misaligned address", kUnseen},
    {"shift_too_far", kUnseen, "runtime error: shift exponent 32 is too large", kUnseen},
    {"signed_overflow", kUnseen, "runtime error: signed integer overflow", kUnseen},
    {"undefined_shared", kUndefined, kUnseen, kUndefined},
    {"undefined_global", kUndefined, kUndefined, kUndefined},
    // Wrong barriers and shuffles: detected in all builds.
    {"divergent_barrier", "meet at different __syncthreads", "meet at different __syncthreads",
     "meet at different __syncthreads"},
    {"shuffle_after_return", "simt: deadlock", "simt: deadlock", "simt: deadlock"},
    {"shuffle_outside_mask", "reads a lane outside its mask", "reads a lane outside its mask",
     "reads a lane outside its mask"},
    {"lane_not_in_mask", "lane is not in the mask", "lane is not in the mask", "lane is not in the mask"},
    {"divergent_shuffle", "meet at different collectives", "meet at different collectives",
     "meet at different collectives"},
    // Data races. Results reveal them only if the racing threads write different values and run in turns.
    {"missing_barrier", kOtherOrder, kOtherOrder, kRace},
    {"missing_barrier_before_reuse", kOtherOrder, kOtherOrder, kRace},
    {"missing_syncwarp", kOtherOrder, kOtherOrder, kRace},
    {"shuffle_as_fence", kUnseen, kUnseen, kRace},
    {"histogram_without_atomics", kUnseen, kUnseen, kRace},
    {"blocks_write_one_value", kOtherOrder, kOtherOrder, kRace},
    {"blocks_add_to_one_value", kUnseen, kUnseen, kRace},
};

const char* in_this_build(const Expectation& expectation) {
#if defined(__SANITIZE_ADDRESS__)
  return expectation.address;
#elif defined(__SANITIZE_THREAD__)
  return expectation.thread;
#else
  return expectation.plain;
#endif
}

std::vector<Expectation> expectations_of_this_build() {
  std::vector<Expectation> result;
  for (const Expectation& expectation : kExpectations) {
    if (in_this_build(expectation) != nullptr) result.push_back(expectation);
  }
  return result;
}

struct Outcome {
  std::string output;
  int status;  // as returned by wait()
};

/// Runs the program with `arguments` and environment settings, in shell syntax.
Outcome run_program(const std::string& environment, const std::string& arguments) {
  const std::string command =
      "ulimit -c 0; exec env " + environment + " '" + TERNGRAD_SIMT_DEFECTS_PROGRAM + "' " + arguments + " 2>&1";
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {"popen failed", -1};
  Outcome outcome = {"", 0};
  char part[4096];
  for (std::size_t count; (count = std::fread(part, 1, sizeof(part), pipe)) > 0;) outcome.output.append(part, count);
  outcome.status = pclose(pipe);
  return outcome;
}

/// Signs of a defect: empty if the kernel ends normally with equal, defined results in all orders.
std::string signs_of(const std::string& name) {
  std::string signs;
  std::set<std::string> results;
  for (const char* environment : {"-u SIMT_SEED", "SIMT_SEED=1", "SIMT_SEED=2", "SIMT_SEED=3", "SIMT_SEED=4"}) {
    const Outcome outcome = run_program(environment, name);
    if (WIFSIGNALED(outcome.status)) return outcome.output + kSignal;
    if (outcome.status != 0) return outcome.output;
    if (outcome.output.find(", 0 undefined") == std::string::npos) signs = kUndefined;
    results.insert(outcome.output);
  }
  if (results.size() > 1) signs += std::string("\n") + kOtherOrder;
  return signs;
}

std::vector<std::string> listed(const char* kind) {
  std::istringstream lines(run_program("", std::string("--list ") + kind).output);
  std::vector<std::string> names;
  for (std::string name; std::getline(lines, name);) names.push_back(name);
  return names;
}

using Defects = ::testing::TestWithParam<Expectation>;

TEST_P(Defects, AreSeen) { EXPECT_THAT(signs_of(GetParam().name), HasSubstr(in_this_build(GetParam()))); }

INSTANTIATE_TEST_SUITE_P(, Defects, ::testing::ValuesIn(expectations_of_this_build()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(AllDefects, AreSeenBySomeBuild) {
  std::vector<std::string> names;
  for (const Expectation& expectation : kExpectations) {
    names.emplace_back(expectation.name);
    EXPECT_TRUE(expectation.plain != nullptr || expectation.address != nullptr || expectation.thread != nullptr)
        << expectation.name;
  }
  EXPECT_THAT(listed("DEFECTS"), ::testing::UnorderedElementsAreArray(names));
}

TEST(CorrectKernels, AreComplainedOfByNobody) {
  const std::vector<std::string> names = listed("CONTROLS");
  EXPECT_GE(names.size(), 5u);
  for (const std::string& name : names) EXPECT_EQ(signs_of(name), "") << name;
}

TEST(Seeds, ThatAreNoNumbersAreRefused) {
  for (const char* seed : {"x", "''", "-1", "1x", "4294967296"}) {
    const Outcome outcome = run_program(std::string("SIMT_SEED=") + seed, "reductions");
    EXPECT_TRUE(WIFSIGNALED(outcome.status)) << seed;
    EXPECT_THAT(outcome.output, HasSubstr("is not a number from 0 to 4294967295")) << seed;
  }
}

}  // namespace
}  // namespace terngrad::defects_test

// Votes on the signs of eight messages.
#include "kernels/codes/votes.h"

#include <memory>
#include <vector>

#include "bench/harness.h"
#include "bench/sign_check.h"
#include "bench/subjects.h"

namespace terngrad::bench {
namespace {

constexpr float kScale = 0.025f;

Subject votes(std::int64_t n) {
  struct State {
    VoteCounter counter;
    std::vector<std::vector<std::uint8_t>> signs;
    std::vector<const std::uint8_t*> pointers;
    std::vector<std::int64_t> bytes;
    Buffer<float> out;
  };
  const auto state = std::make_shared<State>();
  state->signs = random_signs(n);
  state->out = Buffer<float>(n);
  for (const std::vector<std::uint8_t>& of_worker : state->signs) {
    state->pointers.push_back(of_worker.data());
    state->bytes.push_back(static_cast<std::int64_t>(of_worker.size()));
  }
  Subject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = 4.0 * static_cast<double>(n) + static_cast<double>(kVoters) * static_cast<double>(state->bytes[0]);
  subject.prepare = [=](Stream& stream) -> std::function<void()> {
    return [=, &stream] {
      const CodeSumTask task{.format = CodeFormat::kBits,
                             .payloads = state->pointers,
                             .payload_bytes = state->bytes,
                             .num_workers = static_cast<int>(kVoters),
                             .count = n,
                             .scales = &kScale,
                             .out = state->out.data()};
      state->counter.run({&task, 1}, stream);
    };
  };
  subject.check = [=] { return votes_are_right(state->signs, n, kScale, state->out.data()); };
  return subject;
}

}  // namespace

void register_votes() {
  for (const std::int64_t n : sizes()) {
    for (const int threads : thread_counts()) {
      register_subject(bench_name("votes8", "f32", n, threads), n, threads, [=] { return votes(n); });
    }
  }
}

}  // namespace terngrad::bench

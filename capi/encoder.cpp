// One worker's gradients as messages.
#include <atomic>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "capi/arrays.h"
#include "capi/options.h"
#include "capi/plan.h"
#include "capi/status.h"
#include "capi/stream.h"
#include "compress/exchange/nonfinite.h"
#include "compress/plan/exchange_choices.h"
#include "compress/wire/worker_encoder.h"
#include "kernels/runtime/call_guard.h"
#include "kernels/statistics/scaler_limits.h"

using namespace terngrad;
using namespace terngrad::capi;

struct tg_encoder {
  std::shared_ptr<const Plan> plan;
  WorkerEncoder encoder;
  std::uint64_t run_id;
  bool sends_nonfinite_as_zeros;
  bool shares_scalers;
  std::optional<std::uint64_t> step = {};  // last measured step
  std::vector<bool> has_scalers = {};      // per worker: its scalers of this step are set
  std::atomic<bool> in_use = false;
};

namespace {

void require_finite(const tg_encoder& encoder) {
  const Layout& layout = encoder.plan->layout;
  for (int segment = 0; segment < layout.num_segments(); ++segment) {
    if (!encoder.encoder.is_nonfinite(segment)) continue;
    TERNGRAD_THROW(NonFiniteError, "tensor '", layout.segment(segment).name, "'", kNonfiniteWords);
  }
}

void require_all_scalers(const tg_encoder& encoder) {
  if (!encoder.shares_scalers) return;
  for (int worker = 0; worker < encoder.plan->num_workers; ++worker) {
    TERNGRAD_REQUIRE(encoder.has_scalers[static_cast<std::size_t>(worker)], "the scalers of worker ", worker,
                     " are missing: workers share scalers, so tg_encoder_set_scalers needs those of all others, or the "
                     "plan num_workers 1 or sharing=none");
  }
}

bool any_shares_scalers(const CodecPlan& plan) {
  for (const CodecPlan::Group& group : plan.groups()) {
    if (shares_scalers(*group.codec)) return true;
  }
  return false;
}

}  // namespace

extern "C" {

tg_status tg_encoder_create(const tg_plan* plan, int32_t worker, const char* options, tg_encoder** out) {
  return guard([&] {
    const std::shared_ptr<const Plan>& of = deref(plan, "plan").plan;
    tg_encoder*& made = deref(out, "out");
    require_range("worker", worker, 0, of->num_workers - 1);
    Options given(options);
    const std::uint64_t seed = given.number("seed", of->seed);
    const std::uint64_t run_id = given.number("run_id", 0);
    const std::string word = given.text("on_nonfinite", word_of(OnNonfinite::kStop));
    const bool zero = word == word_of(OnNonfinite::kZero);
    TERNGRAD_REQUIRE(zero || word == word_of(OnNonfinite::kStop), "option on_nonfinite=", word,
                     " is refused; accepted: stop, zero");
    given.finish();
    made = new tg_encoder{of, WorkerEncoder(of->layout, of->codecs, worker, of->num_workers, seed), run_id, zero,
                          any_shares_scalers(of->codecs)};
  });
}

void tg_encoder_destroy(tg_encoder* encoder) { delete encoder; }

tg_status tg_encoder_measure(tg_encoder* encoder, const tg_array* gradient, int32_t n, uint64_t step,
                             const tg_stream* stream) {
  return guard([&] {
    tg_encoder& self = deref(encoder, "encoder");
    const CallGuard guard(self.in_use);
    TERNGRAD_REQUIRE(step >> 40 == 0, "step: draws are keyed by 40 bits of it, got ", step);
    const TensorTable table = read_table(self.plan->layout, gradient, n, "gradient, ");
    Stream queue = stream_of(stream);
    self.step.reset();
    self.encoder.measure(table, step, queue);
    if (!self.sends_nonfinite_as_zeros) require_finite(self);
    self.has_scalers.assign(static_cast<std::size_t>(self.plan->num_workers), false);
    self.has_scalers[static_cast<std::size_t>(self.encoder.worker())] = true;
    self.step = step;
  });
}

tg_status tg_encoder_scalers(const tg_encoder* encoder, float* out, int64_t n) {
  return guard([&] {
    const tg_encoder& self = deref(encoder, "encoder");
    TERNGRAD_REQUIRE(self.step.has_value(), "no gradient was measured");
    TERNGRAD_REQUIRE(n == self.plan->codecs.num_scalers(), "there are ", self.plan->codecs.num_scalers(),
                     " scalers, n is ", n);
    if (n > 0) self.encoder.copy_scalers({&deref(out, "out"), static_cast<std::size_t>(n)});
  });
}

tg_status tg_encoder_set_scalers(tg_encoder* encoder, int32_t worker, const float* scalers, int64_t n) {
  return guard([&] {
    tg_encoder& self = deref(encoder, "encoder");
    const CallGuard guard(self.in_use);
    TERNGRAD_REQUIRE(self.step.has_value(), "no gradient was measured");
    TERNGRAD_REQUIRE(n == self.plan->codecs.num_scalers(), "there are ", self.plan->codecs.num_scalers(),
                     " scalers, n is ", n);
    TERNGRAD_REQUIRE(self.shares_scalers, "no codec of the plan shares scalers");
    const std::span<const float> given(n > 0 ? &deref(scalers, "scalers") : nullptr, static_cast<std::size_t>(n));
    for (const float scaler : given) {
      // NaN marks a tensor that is not finite.
      if (std::isnan(scaler) && !self.sends_nonfinite_as_zeros) {
        TERNGRAD_THROW(NonFiniteError, "scalers of worker ", worker, ": it has a tensor that is not finite");
      }
      TERNGRAD_REQUIRE(std::isnan(scaler) || (scaler >= 0 && scaler <= kMaxScaler), "scalers of worker ", worker, ": ",
                       scaler, " is none that a gradient has");
    }
    self.encoder.set_scalers(worker, given);
    self.has_scalers[static_cast<std::size_t>(worker)] = true;
  });
}

tg_status tg_encoder_encode(tg_encoder* encoder, const tg_array* gradient, int32_t n, const uint8_t** message,
                            int64_t* bytes, const tg_stream* stream) {
  return guard([&] {
    tg_encoder& self = deref(encoder, "encoder");
    const CallGuard guard(self.in_use);
    const uint8_t*& begin = deref(message, "message");
    int64_t& size = deref(bytes, "bytes");
    TERNGRAD_REQUIRE(self.step.has_value(), "no gradient was measured");
    require_all_scalers(self);
    const TensorTable table = read_table(self.plan->layout, gradient, n, "gradient, ");
    Stream queue = stream_of(stream);
    const auto made =
        self.encoder.gradient_message(table, {self.run_id, self.plan->codecs.fingerprint(), *self.step}, queue);
    begin = made.data();
    size = static_cast<int64_t>(made.size());
  });
}

}  // extern "C"

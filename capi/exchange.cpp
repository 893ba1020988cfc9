#include "capi/exchange.h"

#include <span>
#include <utility>
#include <vector>

#include "capi/arrays.h"
#include "capi/communicator.h"
#include "capi/options.h"
#include "capi/status.h"
#include "capi/stream.h"
#include "capi/structs.h"
#include "kernels/runtime/call_guard.h"

using namespace terngrad;
using namespace terngrad::capi;

namespace {

CompressedAllReduceOptions read_options(Options& given) {
  CompressedAllReduceOptions options;
  options.algorithm = given.choice("algorithm", options.algorithm);
  options.downlink_codec = given.choice("downlink_codec", options.downlink_codec);
  options.on_nonfinite = given.choice("on_nonfinite", options.on_nonfinite);
  options.seed = given.number("seed", options.seed);
  options.run_id = given.number("run_id", options.run_id);
  return options;
}

/// Copies a report to the caller's struct. @param report  null, or checked
void tell(tg_exchange& exchange, const ExchangeReport& found, tg_report* report) {
  if (report == nullptr) return;
  exchange.nonfinite = found.nonfinite;
  fill(report, {.struct_size = 0,
                .skipped = found.skipped ? 1 : 0,
                .sent_bytes = found.sent_bytes(),
                .received_bytes = found.received_bytes(),
                .scalers_sent = found.scalers.sent,
                .scalers_received = found.scalers.received,
                .gradient_sent = found.gradient.sent,
                .gradient_received = found.gradient.received,
                .mean_sent = found.mean.sent,
                .mean_received = found.mean.received,
                .measure_seconds = found.measure_seconds,
                .encode_seconds = found.encode_seconds,
                .wire_seconds = found.wire_seconds,
                .decode_seconds = found.decode_seconds,
                .nonfinite = exchange.nonfinite.c_str()});
}

}  // namespace

int terngrad::capi::local_number(const tg_exchange& exchange, int worker) {
  const WorkerGroup& workers = exchange.step.workers();
  const int local = worker - workers.first_local_worker;
  TERNGRAD_REQUIRE(worker >= 0 && local >= 0 && local < workers.num_local_workers, "worker ", worker,
                   " is none of this rank's, which has ", workers.num_local_workers, " from ",
                   workers.first_local_worker, " on");
  return local;
}

extern "C" {

tg_status tg_exchange_create(const tg_plan* plan, const tg_communicator* communicator, const char* options,
                             const tg_stream* stream, tg_exchange** out) {
  return guard([&] {
    const std::shared_ptr<const Plan>& of = deref(plan, "plan").plan;
    tg_exchange*& made = deref(out, "out");
    Options given(options);
    CompressedAllReduceOptions read = read_options(given);
    const std::string memory = canonical_memory(given.text("memory", of->memory));
    given.finish();
    read.num_threads = stream_of(stream).num_threads();
    WorkerGroup workers = make_worker_group(
        of->num_workers,
        communicator == nullptr ? std::shared_ptr<Communicator>(make_self_communicator()) : communicator->communicator);
    made = new tg_exchange{of, memory,
                           CompressedAllReduce(of->layout, of->codecs, std::move(workers), read,
                                               Stream(Device::cpu(), read.num_threads), parse_memory(memory))};
  });
}

void tg_exchange_destroy(tg_exchange* exchange) { delete exchange; }

tg_status tg_exchange_get_info(const tg_exchange* exchange, tg_exchange_info* out) {
  return guard([&] {
    const tg_exchange& self = deref(exchange, "exchange");
    check_struct(out, "out");
    fill(out, {.struct_size = 0,
               .num_workers = self.plan->num_workers,
               .first_local_worker = self.step.workers().first_local_worker,
               .num_local_workers = self.step.workers().num_local_workers,
               .fingerprint = self.plan->codecs.fingerprint(),
               .memory = self.memory.c_str()});
  });
}

tg_status tg_exchange_begin(tg_exchange* exchange, uint64_t step) {
  return guard([&] {
    tg_exchange& self = deref(exchange, "exchange");
    const CallGuard guard(self.in_use);
    self.step.begin(step);
  });
}

tg_status tg_exchange_part(tg_exchange* exchange, const int32_t* tensors, int32_t n, const tg_array* gradients,
                           const tg_array* mean, tg_report* report) {
  return guard([&] {
    tg_exchange& self = deref(exchange, "exchange");
    const CallGuard guard(self.in_use);
    if (report != nullptr) check_struct(report, "report");
    require_range("n", n, 1, self.plan->layout.num_segments());
    const std::span<const std::int32_t> segments(&deref(tensors, "tensors"), static_cast<std::size_t>(n));
    deref(gradients, "gradients");
    const Layout& selection = self.step.layout_of(segments);
    const WorkerGroup& workers = self.step.workers();
    std::vector<TensorTable> tables;
    tables.reserve(static_cast<std::size_t>(workers.num_local_workers));
    for (int local = 0; local < workers.num_local_workers; ++local) {
      tables.push_back(read_table(selection, gradients + std::ptrdiff_t{local} * n, n,
                                  "gradient of worker " + std::to_string(workers.first_local_worker + local) + ", "));
    }
    const TensorTable target = write_table(selection, mean, n, "mean, ");
    tell(self, self.step.exchange_part(segments, tables, target), report);
  });
}

tg_status tg_exchange_finish(tg_exchange* exchange, tg_report* report) {
  return guard([&] {
    tg_exchange& self = deref(exchange, "exchange");
    const CallGuard guard(self.in_use);
    if (report != nullptr) check_struct(report, "report");
    tell(self, self.step.finish(), report);
  });
}

tg_status tg_exchange_decode_local(tg_exchange* exchange, int32_t worker, int32_t tensor, const tg_array* out,
                                   float* scaler) {
  return guard([&] {
    tg_exchange& self = deref(exchange, "exchange");
    const CallGuard guard(self.in_use);
    require_range("tensor", tensor, 0, self.plan->layout.num_segments() - 1);
    const int local = local_number(self, worker);
    const float largest = self.step.decode_local(local, tensor, write_floats(deref(out, "out"), "out"));
    if (scaler != nullptr) *scaler = largest;
  });
}

}  // extern "C"

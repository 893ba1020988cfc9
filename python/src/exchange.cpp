// Exchanges, in parts, between the workers of this process and of others.
#include "compress/exchange/compressed_all_reduce.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "kernels/runtime/errors.h"
#include "python/src/calls.h"
#include "python/src/communicator.h"
#include "python/src/exchange_options.h"
#include "python/src/exchange_tensors.h"
#include "python/src/gc_slots.h"
#include "python/src/module.h"
#include "python/src/plan.h"

namespace terngrad::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

class Exchange {
 public:
  Exchange(const Plan& plan, const std::string& algorithm, const std::string& downlink_codec,
           const std::string& on_nonfinite, const std::string& memory, std::uint64_t seed, std::uint64_t run_id,
           int num_threads, nb::object communicator)
      : plan_(plan),
        communicator_(std::move(communicator)),
        workers_(make_worker_group(plan.num_workers, communicator_.is_none()
                                                         ? std::shared_ptr<Communicator>(make_self_communicator())
                                                         : make_communicator(communicator_))),
        exchange_(plan.layout, plan.codecs, workers_,
                  exchange_options(algorithm, downlink_codec, on_nonfinite, seed, run_id, num_threads),
                  Stream(Device::cpu(), num_threads), parse_memory(memory)) {}

  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  int first_local_worker() const { return workers_.first_local_worker; }
  int num_local_workers() const { return workers_.num_local_workers; }

  void begin(std::uint64_t step) {
    const CallGuard guard(in_use_);
    exchange_.begin(step);
  }

  nb::object& communicator() { return communicator_; }

  /// @param gradients  [local workers] lists of tensors, in the order of `segments`. @param out  likewise, for the mean
  nb::dict exchange(const std::vector<int>& segments, const nb::list& gradients, const nb::list& out) {
    const CallGuard guard(in_use_);
    TERNGRAD_REQUIRE(communicator_.is_valid(), "the exchange was taken apart by the garbage collector");
    const Layout& selection = exchange_.layout_of(segments);
    const ExchangeTensors tensors = read_exchange_tensors(plan_, selection, workers_, gradients, out);
    ExchangeReport report;
    {
      const UnlockedCall unlocked;
      report = exchange_.exchange_part(segments, tensors.gradients, tensors.mean);
    }
    return to_dict(report);
  }

  nb::dict finish() {
    const CallGuard guard(in_use_);
    ExchangeReport report;
    {
      const UnlockedCall unlocked;
      report = exchange_.finish();
    }
    return to_dict(report);
  }

  float decode_local(int local_worker, int segment, nb::handle out) {
    const CallGuard guard(in_use_);
    TERNGRAD_REQUIRE(segment >= 0 && segment < plan_.layout.num_segments(), "there is no tensor ", segment);
    const Tensor tensor = write_tensor(out, "out");
    return exchange_.decode_local(local_worker, segment,
                                  {static_cast<float*>(tensor.data()), static_cast<std::size_t>(tensor.count())});
  }

  auto states() const { return describe_states(states_); }
  void copy_state(int index, nb::handle array, bool restores) {
    const CallGuard guard(in_use_);
    Stream stream(Device::cpu(), 1);
    terngrad::python::copy_state(states_, index, array, restores, stream);
  }

 private:
  const Plan& plan_;
  nb::object communicator_;  // outlives the exchange that calls it
  WorkerGroup workers_;
  CompressedAllReduce exchange_;
  std::vector<SavedState> states_ = saved_states(exchange_.memory(), &exchange_.factors(), workers_.first_local_worker);
  std::atomic<bool> in_use_{false};
};

}  // namespace

void bind_exchange(nb::module_& module) {
  nb::class_<Exchange>(module, "Exchange", nb::type_slots(GcSlots<Exchange>::slots))
      .def(nb::init<const Plan&, const std::string&, const std::string&, const std::string&, const std::string&,
                    std::uint64_t, std::uint64_t, int, nb::object>(),
           "plan"_a, "algorithm"_a, "downlink_codec"_a, "on_nonfinite"_a, "memory"_a, "seed"_a, "run_id"_a,
           "num_threads"_a, "communicator"_a.none(), nb::keep_alive<1, 2>())
      .def_prop_ro("first_local_worker", &Exchange::first_local_worker)
      .def_prop_ro("num_local_workers", &Exchange::num_local_workers)
      .def("begin", &Exchange::begin, "step"_a)
      .def("exchange", &Exchange::exchange, "segments"_a, "gradients"_a, "out"_a)
      .def("finish", &Exchange::finish)
      .def("decode_local", &Exchange::decode_local, "local_worker"_a, "segment"_a, "out"_a)
      .def("states", &Exchange::states)
      .def("copy_state", &Exchange::copy_state, "index"_a, "array"_a, "restores"_a);
}

}  // namespace terngrad::python

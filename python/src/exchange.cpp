// Exchanges, whole or in parts, of gradients in the memory of the CPU or of a GPU.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compress/exchange/compressed_all_reduce.h"
#include "kernels/runtime/call_guard.h"
#include "kernels/runtime/errors.h"
#include "python/src/calls.h"
#include "python/src/communicator.h"
#include "python/src/device_communicator.h"
#include "python/src/exchange_options.h"
#include "python/src/exchange_tensors.h"
#include "python/src/gc_slots.h"
#include "python/src/module.h"
#include "python/src/plan.h"

namespace terngrad::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

/// On a GPU, exchange and finish only submit work and do not report non-finite tensors: report waits and does.
class Exchange {
 public:
  /// @param device  index of a GPU; none: the CPU. @param stream  cudaStream_t on it, which must outlive this object
  Exchange(const Plan& plan, const std::string& algorithm, const std::string& downlink_codec,
           const std::string& on_nonfinite, const std::string& memory, std::uint64_t seed, std::uint64_t run_id,
           int num_threads, nb::object communicator, std::optional<int> device, std::uint64_t stream)
      : plan_(plan),
        communicator_(std::move(communicator)),
        stream_(device.has_value() ? Stream::borrow(Device::cuda(*device),
                                                    reinterpret_cast<void*>(static_cast<std::uintptr_t>(stream)))
                                   : Stream(Device::cpu(), num_threads)),
        exchange_(plan.layout, plan.codecs, peers(),
                  exchange_options(algorithm, downlink_codec, on_nonfinite, seed, run_id, num_threads), stream_,
                  parse_memory(memory)) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  int first_local_worker() const { return exchange_.workers().first_local_worker; }
  int num_local_workers() const { return exchange_.workers().num_local_workers; }
  nb::object& communicator() { return communicator_; }

  void begin(std::uint64_t step) {
    const CallGuard guard(in_use_);
    const UnlockedCall unlocked;
    exchange_.begin(step);
    step_ = step;
  }

  /// @param gradients  [local workers] lists of tensors, in the order of `segments`. @param out  likewise, for the mean
  nb::dict exchange(const std::vector<int>& segments, const nb::list& gradients, const nb::list& out) {
    const CallGuard guard(in_use_);
    TERNGRAD_REQUIRE(communicator_.is_valid(), "the exchange was taken apart by the garbage collector");
    const ExchangeTensors tensors = read_exchange_tensors(plan_, exchange_.layout_of(segments), exchange_.workers(),
                                                          gradients, out, stream_.device());
    return unlocked_report([&] { return exchange_.exchange_part(segments, tensors.gradients, tensors.mean); });
  }

  nb::dict finish() {
    const CallGuard guard(in_use_);
    return unlocked_report([&] { return exchange_.finish(); });
  }

  nb::dict report() {
    const CallGuard guard(in_use_);
    return unlocked_report([&] { return exchange_.report(step_); });
  }

  float decode_local(int local_worker, int segment, nb::handle out) {
    const CallGuard guard(in_use_);
    TERNGRAD_REQUIRE(segment >= 0 && segment < plan_.layout.num_segments(), "there is no tensor ", segment);
    const Tensor tensor = write_tensor(out, "out");
    const UnlockedCall unlocked;
    return exchange_.decode_local(local_worker, segment,
                                  {static_cast<float*>(tensor.data()), static_cast<std::size_t>(tensor.count())});
  }

  /// Skip flag [1] in GPU memory, valid in stream order: nonzero once the step is to be dropped. Keeps `self` alive.
  static nb::object skip(const nb::handle& self) {
    TERNGRAD_REQUIRE(nb::inst_ready(self), "the exchange was made by __new__ alone");
    auto* exchange = nb::inst_ptr<Exchange>(self);
    using Array = nb::ndarray<std::int32_t, nb::ndim<1>>;
    const DlpackDevice device = dlpack_device(exchange->stream_.device());
    // Nobody writes to it, but array libraries do not import read-only DLPack tensors.
    auto* flag = const_cast<std::uint32_t*>(exchange->exchange_.skip());
    return nb::cast(Array(reinterpret_cast<std::int32_t*>(flag), {1}, self, {}, nb::dtype<std::int32_t>(), device.type,
                          device.index),
                    nb::rv_policy::reference);
  }

  auto states() const { return describe_states(states_); }
  void copy_state(int index, nb::handle array, bool restores) {
    const CallGuard guard(in_use_);
    terngrad::python::copy_state(states_, index, array, restores, stream_);
  }

 private:
  ExchangePeers peers() const {
    if (stream_.device().is_cpu()) {
      return make_worker_group(plan_.num_workers, communicator_.is_none()
                                                      ? std::shared_ptr<Communicator>(make_self_communicator())
                                                      : make_communicator(communicator_));
    }
    std::shared_ptr<DeviceCommunicator> transport =
        communicator_.is_none() ? std::shared_ptr<DeviceCommunicator>(make_self_device_communicator())
                                : make_device_communicator(communicator_, stream_.device());
    const WorkerRange workers = worker_range(plan_.num_workers, transport->rank(), transport->size());
    return {workers, std::move(transport)};
  }
  template <class Call>
  static nb::dict unlocked_report(const Call& call) {
    ExchangeReport report;
    {
      const UnlockedCall unlocked;
      report = call();
    }
    return to_dict(report);
  }

  const Plan& plan_;
  nb::object communicator_;  // outlives the exchange that calls it
  Stream stream_;
  CompressedAllReduce exchange_;
  std::vector<SavedState> states_ = exchange_.states();
  std::uint64_t step_ = 0;
  std::atomic<bool> in_use_{false};
};

}  // namespace

void bind_exchange(nb::module_& module) {
  nb::class_<Exchange>(module, "Exchange", nb::type_slots(GcSlots<Exchange>::slots))
      .def(nb::init<const Plan&, const std::string&, const std::string&, const std::string&, const std::string&,
                    std::uint64_t, std::uint64_t, int, nb::object, std::optional<int>, std::uint64_t>(),
           "plan"_a, "algorithm"_a, "downlink_codec"_a, "on_nonfinite"_a, "memory"_a, "seed"_a, "run_id"_a,
           "num_threads"_a, "communicator"_a.none(), "device"_a.none(), "stream"_a, nb::keep_alive<1, 2>())
      .def_prop_ro("first_local_worker", &Exchange::first_local_worker)
      .def_prop_ro("num_local_workers", &Exchange::num_local_workers)
      .def("begin", &Exchange::begin, "step"_a)
      .def("exchange", &Exchange::exchange, "segments"_a, "gradients"_a, "out"_a)
      .def("finish", &Exchange::finish)
      .def("report", &Exchange::report)
      .def("decode_local", &Exchange::decode_local, "local_worker"_a, "segment"_a, "out"_a)
      .def_prop_ro("skip", [](nb::handle_t<Exchange> self) { return Exchange::skip(self); })
      .def("states", &Exchange::states)
      .def("copy_state", &Exchange::copy_state, "index"_a, "array"_a, "restores"_a);
}

}  // namespace terngrad::python

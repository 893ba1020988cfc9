// Exchanges, in parts, of gradients in GPU memory, on the caller's stream.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "compress/exchange/compressed_all_reduce.h"
#include "kernels/runtime/errors.h"
#include "python/src/calls.h"
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

/// As Exchange, except that exchange and finish only submit work and do not report nonfinite tensors: report waits and
/// does.
class DeviceExchange {
 public:
  /// @param device  index of a GPU. @param stream  cudaStream_t on it, which must outlive this object
  DeviceExchange(const Plan& plan, const std::string& algorithm, const std::string& downlink_codec,
                 const std::string& on_nonfinite, const std::string& memory, std::uint64_t seed,
                 nb::object communicator, int device, std::uint64_t stream)
      : plan_(plan),
        communicator_(std::move(communicator)),
        stream_(Stream::borrow(Device::cuda(device), reinterpret_cast<void*>(static_cast<std::uintptr_t>(stream)))),
        transport_(communicator_.is_none() ? std::shared_ptr<DeviceCommunicator>(make_self_device_communicator())
                                           : make_device_communicator(communicator_, stream_.device())),
        workers_(worker_range(plan.num_workers, transport_->rank(), transport_->size())),
        exchange_(plan.layout, plan.codecs, {workers_, transport_},
                  exchange_options(algorithm, downlink_codec, on_nonfinite, seed, 0, 1), stream_,
                  parse_memory(memory)) {}
  DeviceExchange(const DeviceExchange&) = delete;
  DeviceExchange& operator=(const DeviceExchange&) = delete;

  int first_local_worker() const { return workers_.first_local_worker; }
  int num_local_workers() const { return workers_.num_local_workers; }
  nb::object& communicator() { return communicator_; }

  void begin(std::uint64_t step) {
    const CallGuard guard(in_use_);
    const UnlockedCall unlocked;
    step_ = step;
    exchange_.begin(step);
  }

  nb::dict exchange(const std::vector<int>& segments, const nb::list& gradients, const nb::list& out) {
    const CallGuard guard(in_use_);
    TERNGRAD_REQUIRE(communicator_.is_valid(), "the exchange was taken apart by the garbage collector");
    const Layout& selection = exchange_.layout_of(segments);
    const ExchangeTensors tensors = read_exchange_tensors(plan_, selection, workers_, gradients, out, stream_.device());
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

  nb::dict report() {
    const CallGuard guard(in_use_);
    ExchangeReport report;
    {
      const UnlockedCall unlocked;
      report = exchange_.report(step_);
    }
    return to_dict(report);
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
    auto* exchange = nb::inst_ptr<DeviceExchange>(self);
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
  const Plan& plan_;
  nb::object communicator_;  // outlives the exchange that calls it
  Stream stream_;
  std::shared_ptr<DeviceCommunicator> transport_;
  WorkerRange workers_;
  CompressedAllReduce exchange_;
  std::vector<SavedState> states_ = saved_states(exchange_.memory(), &exchange_.factors(), workers_.first_local_worker);
  std::uint64_t step_ = 0;
  std::atomic<bool> in_use_{false};
};

}  // namespace

void bind_device_exchange(nb::module_& module) {
  nb::class_<DeviceExchange>(module, "DeviceExchange", nb::type_slots(GcSlots<DeviceExchange>::slots))
      .def(nb::init<const Plan&, const std::string&, const std::string&, const std::string&, const std::string&,
                    std::uint64_t, nb::object, int, std::uint64_t>(),
           "plan"_a, "algorithm"_a, "downlink_codec"_a, "on_nonfinite"_a, "memory"_a, "seed"_a, "communicator"_a.none(),
           "device"_a, "stream"_a, nb::keep_alive<1, 2>())
      .def_prop_ro("first_local_worker", &DeviceExchange::first_local_worker)
      .def_prop_ro("num_local_workers", &DeviceExchange::num_local_workers)
      .def("begin", &DeviceExchange::begin, "step"_a)
      .def("exchange", &DeviceExchange::exchange, "segments"_a, "gradients"_a, "out"_a)
      .def("finish", &DeviceExchange::finish)
      .def("report", &DeviceExchange::report)
      .def("decode_local", &DeviceExchange::decode_local, "local_worker"_a, "segment"_a, "out"_a)
      .def_prop_ro("skip", [](nb::handle_t<DeviceExchange> self) { return DeviceExchange::skip(self); })
      .def("states", &DeviceExchange::states)
      .def("copy_state", &DeviceExchange::copy_state, "index"_a, "array"_a, "restores"_a);
}

}  // namespace terngrad::python

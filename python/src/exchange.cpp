// Exchanges in parts, of plans, between workers of this process and of others.
#include "compress/exchange/exchange_parts.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "kernels/runtime/errors.h"
#include "python/src/calls.h"
#include "python/src/communicator.h"
#include "python/src/module.h"
#include "python/src/plan.h"

namespace terngrad::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

/// The value of that name. @throws InvalidArgument naming the option and what it accepts
template <class Value>
Value choose(const char* option, const std::string& text, std::initializer_list<std::pair<const char*, Value>> values) {
  std::string accepted;
  for (const auto& [name, value] : values) {
    if (text == name) return value;
    accepted += (accepted.empty() ? "" : ", ") + std::string(name);
  }
  TERNGRAD_THROW(InvalidArgument, option, " '", text, "' is unknown; accepted: ", accepted);
}

nb::dict to_dict(const ExchangeReport& report) {
  const auto leg = [](const LegBytes& bytes) { return nb::make_tuple(bytes.sent, bytes.received); };
  nb::dict result;
  result["scalers"] = leg(report.scalers);
  result["gradient"] = leg(report.gradient);
  result["mean"] = leg(report.mean);
  result["sent_bytes"] = report.sent_bytes();
  result["received_bytes"] = report.received_bytes();
  result["measure_seconds"] = report.measure_seconds;
  result["encode_seconds"] = report.encode_seconds;
  result["wire_seconds"] = report.wire_seconds;
  result["decode_seconds"] = report.decode_seconds;
  result["skipped"] = report.skipped;
  result["nonfinite"] = report.nonfinite;
  return result;
}

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
        parts_(plan.layout, plan.codecs, workers_,
               options_of(algorithm, downlink_codec, on_nonfinite, seed, run_id, num_threads), parse_memory(memory)) {}

  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  int first_local_worker() const { return workers_.first_local_worker; }
  int num_local_workers() const { return workers_.num_local_workers; }

  void begin(std::uint64_t step) {
    const Use use(in_use_);
    parts_.begin(step);
  }

  nb::object& communicator() { return communicator_; }

  /// @param gradients  [local workers] of the tensors of `segments`, in their order; @param out  likewise
  nb::dict exchange(const std::vector<int>& segments, const nb::list& gradients, const nb::list& out) {
    const Use use(in_use_);
    TERNGRAD_REQUIRE(communicator_.is_valid(), "the exchange was taken apart by the garbage collector");
    const Layout& selection = parts_.layout_of(segments);
    TERNGRAD_REQUIRE(static_cast<int>(nb::len(gradients)) == workers_.num_local_workers, "this process has ",
                     workers_.num_local_workers, " workers, got the gradients of ", nb::len(gradients));
    std::vector<std::vector<Tensor>> held;  // keeps the memory alive
    std::vector<TensorTable> tables;
    held.reserve(nb::len(gradients) + 1);
    tables.reserve(nb::len(gradients));
    for (std::size_t worker = 0; worker < nb::len(gradients); ++worker) {
      const std::string whose =
          "gradient of worker " + std::to_string(workers_.first_local_worker + static_cast<int>(worker)) + ", ";
      held.push_back(read(selection, nb::cast<nb::list>(gradients[worker]), whose, &read_tensor));
      tables.push_back(plan_.table(selection, held.back(), whose));
    }
    held.push_back(read(selection, out, "out, ", &write_tensor));
    require_apart(held.back(), "out");
    const TensorTable mean = plan_.table(selection, held.back(), "out, ");
    ExchangeReport report;
    {
      const UnlockedCall unlocked;
      report = parts_.exchange(segments, tables, mean);
    }
    return to_dict(report);
  }

  nb::dict finish() {
    const Use use(in_use_);
    ExchangeReport report;
    {
      const UnlockedCall unlocked;
      report = parts_.finish();
    }
    return to_dict(report);
  }

  float decode_local(int local_worker, int segment, nb::handle out) {
    const Use use(in_use_);
    TERNGRAD_REQUIRE(segment >= 0 && segment < plan_.layout.num_segments(), "there is no tensor ", segment);
    const Tensor tensor = write_tensor(out, "out");
    return parts_.decode_local(local_worker, segment,
                               {static_cast<float*>(tensor.data()), static_cast<std::size_t>(tensor.count())});
  }

  /// The tensors that have state.
  std::vector<int> state_tensors() {
    std::vector<int> result;
    if (parts_.memory() == nullptr) return result;
    for (int segment = 0; segment < plan_.layout.num_segments(); ++segment) {
      if (parts_.memory()->covers(segment)) result.push_back(segment);
    }
    return result;
  }

  /// Copies the state of a local worker's tensor to, or from, an array.
  void copy_state(int local_worker, int segment, nb::handle array, bool restores) {
    const Use use(in_use_);
    TERNGRAD_REQUIRE(parts_.memory() != nullptr && parts_.memory()->covers(segment), "tensor ", segment,
                     " has no state");
    TERNGRAD_REQUIRE(local_worker >= 0 && local_worker < workers_.num_local_workers, "there is no local worker ",
                     local_worker);
    const std::string name = "state of tensor '" + plan_.layout.segment(segment).name + "'";
    const Tensor tensor = restores ? read_tensor(array, name) : write_tensor(array, name);
    const std::int64_t count = plan_.layout.segment(segment).num_elements;
    TERNGRAD_REQUIRE(tensor.shape() == plan_.layout.segment(segment).shape, name, " has another shape than the tensor");
    TERNGRAD_REQUIRE(tensor.type == ElementType::kFloat32, name, " must be float32");
    float* const state = parts_.memory()->states()[static_cast<std::size_t>(local_worker)].tensor(segment);
    float* const other = static_cast<float*>(tensor.data());
    std::copy_n(restores ? other : state, count, restores ? state : other);
  }

 private:
  static CompressedAllReduceOptions options_of(const std::string& algorithm, const std::string& downlink_codec,
                                               const std::string& on_nonfinite, std::uint64_t seed,
                                               std::uint64_t run_id, int num_threads) {
    TERNGRAD_REQUIRE(num_threads >= 1, "num_threads must be at least 1, got ", num_threads);
    CompressedAllReduceOptions options;
    options.algorithm = choose<ExchangeAlgorithm>("algorithm", algorithm,
                                                  {{"auto", ExchangeAlgorithm::kAuto},
                                                   {"all_gather", ExchangeAlgorithm::kAllGather},
                                                   {"scatter_reduce", ExchangeAlgorithm::kScatterReduce},
                                                   {"integer_sum", ExchangeAlgorithm::kIntegerSum}});
    options.downlink_codec = choose<DownlinkCodec>("downlink_codec", downlink_codec,
                                                   {{"fp32", DownlinkCodec::kFloat32},
                                                    {"bf16", DownlinkCodec::kBfloat16},
                                                    {"sums", DownlinkCodec::kSums},
                                                    {"ternary", DownlinkCodec::kTernary}});
    options.on_nonfinite =
        choose<OnNonfinite>("on_nonfinite", on_nonfinite,
                            {{"stop", OnNonfinite::kStop}, {"skip", OnNonfinite::kSkip}, {"zero", OnNonfinite::kZero}});
    options.seed = seed;
    options.run_id = run_id;
    options.num_threads = num_threads;
    return options;
  }

  template <class Read>
  std::vector<Tensor> read(const Layout& selection, const nb::list& tensors, const std::string& whose,
                           const Read& read_one) const {
    TERNGRAD_REQUIRE(static_cast<int>(nb::len(tensors)) == selection.num_segments(), whose, "has ", nb::len(tensors),
                     " tensors, expected ", selection.num_segments());
    std::vector<Tensor> result;
    result.reserve(nb::len(tensors));
    for (int i = 0; i < selection.num_segments(); ++i) {
      result.push_back(
          read_one(tensors[static_cast<std::size_t>(i)], whose + "tensor '" + selection.segment(i).name + "'"));
    }
    return result;
  }

  const Plan& plan_;
  nb::object communicator_;  // outlives what calls it
  WorkerGroup workers_;
  ExchangeParts parts_;
  std::atomic<bool> in_use_{false};
};

// An exchange and its communicator may know each other: the garbage collector has to see that.
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  PyObject* communicator = nb::inst_ptr<Exchange>(self)->communicator().ptr();
  Py_VISIT(communicator);
  return 0;
}
int clear(PyObject* self) {
  nb::inst_ptr<Exchange>(self)->communicator().reset();
  return 0;
}
PyType_Slot slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)}, {Py_tp_clear, reinterpret_cast<void*>(clear)}, {0, nullptr}};

}  // namespace

void bind_exchange(nb::module_& module) {
  nb::class_<Exchange>(module, "Exchange", nb::type_slots(slots))
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
      .def("state_tensors", &Exchange::state_tensors)
      .def("copy_state", &Exchange::copy_state, "local_worker"_a, "segment"_a, "array"_a, "restores"_a);
}

}  // namespace terngrad::python

#include "python/src/device_communicator.h"

#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/runtime/errors.h"
#include "python/src/tensors.h"

namespace terngrad::python {
namespace {

namespace nb = nanobind;

class PythonDeviceCommunicator final : public DeviceCommunicator {
 public:
  PythonDeviceCommunicator(nb::handle object, const Device& device)
      : object_(object),
        device_(dlpack_device(device)),
        rank_(nb::cast<int>(object_.attr("rank"))),
        size_(nb::cast<int>(object_.attr("size"))) {
    TERNGRAD_REQUIRE(size_ >= 1 && rank_ >= 0 && rank_ < size_, "a communicator's rank must be in [0, size), got rank ",
                     rank_, " of ", size_);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  // Failures show as exceptions of the calls or when the caller waits for its stream.
  void check() override {}

 protected:
  void submit_all_gather(std::span<const DeviceGather> gathers, Stream&) override {
    const nb::gil_scoped_acquire acquired;
    nb::list buffers;
    for (const DeviceGather& gather : gathers)
      buffers.append(nb::make_tuple(view(gather.buffer, gather.parts), list(gather.parts)));
    object_.attr("all_gather")(buffers);
  }
  // Signed and unsigned sums wrap to the same bits; Python libraries support signed integers.
  void submit_all_reduce_sum(std::span<std::uint64_t> values, Stream&) override {
    const nb::gil_scoped_acquire acquired;
    object_.attr("all_reduce_sum")(view(reinterpret_cast<std::int64_t*>(values.data()), values.size()));
  }
  void submit_all_reduce_max(std::span<std::uint32_t> values, Stream&) override {
    const nb::gil_scoped_acquire acquired;
    object_.attr("all_reduce_max")(view(reinterpret_cast<std::int32_t*>(values.data()), values.size()));
  }
  void submit_all_to_all(const std::uint8_t* outgoing, std::span<const ByteRange> to, std::uint8_t* incoming,
                         std::span<const ByteRange> from, Stream&) override {
    const nb::gil_scoped_acquire acquired;
    object_.attr("all_to_all")(view(const_cast<std::uint8_t*>(outgoing), to), list(to), view(incoming, from),
                               list(from));
  }
  void submit_broadcast(std::span<std::uint8_t> bytes, int root, Stream&) override {
    const nb::gil_scoped_acquire acquired;
    object_.attr("broadcast")(view(bytes.data(), bytes.size()), root);
  }

 private:
  /// A DLPack view of device memory.
  template <class Element>
  nb::object view(Element* values, std::size_t count) const {
    using Array = nb::ndarray<Element, nb::ndim<1>>;
    return nb::cast(Array(values, {count}, nb::handle(), {}, nb::dtype<Element>(), device_.type, device_.index),
                    nb::rv_policy::reference);
  }
  /// A view of a buffer up to the end of the last range.
  nb::object view(std::uint8_t* buffer, std::span<const ByteRange> ranges) const {
    std::int64_t end = 0;
    for (const ByteRange& range : ranges) end = std::max(end, range.offset + range.count);
    return view(buffer, static_cast<std::size_t>(end));
  }
  /// The ranges as a list of (begin, end).
  static nb::list list(std::span<const ByteRange> ranges) {
    nb::list result;
    for (const ByteRange& range : ranges) result.append(nb::make_tuple(range.offset, range.offset + range.count));
    return result;
  }

  nb::handle object_;
  DlpackDevice device_;
  int rank_;
  int size_;
};

}  // namespace

std::shared_ptr<DeviceCommunicator> make_device_communicator(nb::handle object, const Device& device) {
  return std::make_shared<PythonDeviceCommunicator>(object, device);
}

}  // namespace terngrad::python

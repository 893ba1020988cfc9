#include "python/src/communicator.h"

#include <nanobind/ndarray.h>

#include <utility>
#include <vector>

#include "compress/comm/packed_parcels.h"
#include "kernels/runtime/errors.h"

namespace terngrad::python {
namespace {

namespace nb = nanobind;

/// A numpy view of elements, valid during one call.
template <class Element>
nb::object view(Element* values, std::size_t count) {
  using Array = nb::ndarray<nb::numpy, Element, nb::ndim<1>>;
  return nb::cast(Array(values, {count}, nb::handle()), nb::rv_policy::reference);
}

/// Communicator over a Python object's methods. Packs a rank's parcels into one message.
class PythonCommunicator final : public Communicator {
 public:
  explicit PythonCommunicator(nb::handle object)
      : object_(object), rank_(nb::cast<int>(object_.attr("rank"))), size_(nb::cast<int>(object_.attr("size"))) {
    TERNGRAD_REQUIRE(size_ >= 1 && rank_ >= 0 && rank_ < size_, "a communicator's rank must be in [0, size), got rank ",
                     rank_, " of ", size_);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void all_gather(Parcels& mine, Parcels& all) override {
    std::vector<std::uint64_t> message = pack_parcels(mine);
    all.clear();
    const nb::gil_scoped_acquire acquired;
    unpack_all(object_.attr("all_gather")(bytes_of(message)), "all_gather", all);
  }

  void all_to_all(std::span<Parcels> outgoing, Parcels& incoming) override {
    std::vector<std::vector<std::uint64_t>> messages;
    messages.reserve(outgoing.size());
    for (const Parcels& parcels : outgoing) messages.push_back(pack_parcels(parcels));
    incoming.clear();
    const nb::gil_scoped_acquire acquired;
    nb::list views;
    for (std::vector<std::uint64_t>& message : messages) views.append(bytes_of(message));
    unpack_all(object_.attr("all_to_all")(views), "all_to_all", incoming);
  }

  // Signed and unsigned sums wrap to the same bits; Python libraries support signed integers.
  void all_reduce_sum(std::span<std::uint64_t> values) override {
    const nb::gil_scoped_acquire acquired;
    require_none(object_.attr("all_reduce_sum")(view(reinterpret_cast<std::int64_t*>(values.data()), values.size())),
                 "all_reduce_sum");
  }

  // Flipping the top bit makes signed order equal to unsigned order.
  void all_reduce_max(std::span<std::uint32_t> values) override {
    for (std::uint32_t& value : values) value ^= kTopBit;
    {
      const nb::gil_scoped_acquire acquired;
      require_none(object_.attr("all_reduce_max")(view(reinterpret_cast<std::int32_t*>(values.data()), values.size())),
                   "all_reduce_max");
    }
    for (std::uint32_t& value : values) value ^= kTopBit;
  }

  void broadcast(std::span<std::uint8_t> values, int root) override {
    const nb::gil_scoped_acquire acquired;
    object_.attr("broadcast")(view(values.data(), values.size()), root);
  }

  void barrier() override {
    const nb::gil_scoped_acquire acquired;
    object_.attr("barrier")();
  }

 private:
  /// A method that returns something has not worked in place. @throws CommunicationError
  static void require_none(const nb::object& result, const char* operation) {
    if (result.is_none()) return;
    TERNGRAD_THROW(CommunicationError, "[communicator] ", operation,
                   " gave something back: it has to work on the array that it got, in place");
  }

  static constexpr std::uint32_t kTopBit = 0x80000000u;

  static nb::object bytes_of(std::vector<std::uint64_t>& message) {
    return view(reinterpret_cast<std::uint8_t*>(message.data()), 8 * message.size());
  }

  /// Unpacks the messages of all ranks, in order.
  void unpack_all(const nb::object& messages, const char* operation, Parcels& all) const {
    const std::size_t count = nb::len(messages);
    if (count != static_cast<std::size_t>(size_)) {
      TERNGRAD_THROW(CommunicationError, "[communicator] ", operation, " gave ", count, " messages, there are ", size_,
                     " ranks");
    }
    for (std::size_t rank = 0; rank < count; ++rank) {
      nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> bytes;
      if (!nb::try_cast(messages[rank], bytes, false)) {
        PyErr_Clear();
        TERNGRAD_THROW(CommunicationError, "[communicator] ", operation, " gave no array of bytes for rank ", rank);
      }
      unpack_parcels({bytes.data(), bytes.size()}, operation, static_cast<int>(rank), all);
    }
  }

  nb::handle object_;
  int rank_;
  int size_;
};

}  // namespace

std::shared_ptr<Communicator> make_communicator(nb::handle object) {
  return std::make_shared<PythonCommunicator>(object);
}

}  // namespace terngrad::python

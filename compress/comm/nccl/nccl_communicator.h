// NcclCommunicator: collectives between GPUs by NCCL 2.
#pragma once

#include <exception>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "compress/comm/communicator.h"
#include "compress/comm/device_communicator.h"
#include "compress/comm/nccl/nccl_api.h"

namespace terngrad {

/// Owns an ncclComm_t: destroys it, or aborts it if an operation failed and peers may never join.
class NcclHandle {
 public:
  NcclHandle(NcclApi& api, NcclApi::Handle handle) : api_(&api), handle_(handle) {}
  NcclHandle(NcclHandle&& other) noexcept
      : api_(other.api_), handle_(std::exchange(other.handle_, nullptr)), failed_(other.failed_) {}
  NcclHandle& operator=(NcclHandle&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(handle_, other.handle_);
    std::swap(failed_, other.failed_);
    return *this;
  }
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;
  /// Aborts after a failure, and during an exception: other ranks may never join pending operations, for which
  /// destroying would wait.
  ~NcclHandle();

  NcclApi& api() const { return *api_; }
  NcclApi::Handle get() const { return handle_; }
  void mark_failed() { failed_ = true; }
  /// Ends pending operations at once.
  void abort() noexcept;

 private:
  NcclApi* api_;
  NcclApi::Handle handle_;
  bool failed_ = false;
  int num_exceptions_ = std::uncaught_exceptions();  // uncaught exceptions at construction
};

/// One rank of a group of GPUs, one GPU each. Adjacent parts of equal size are gathered by ncclAllGather, others by a
/// group of broadcasts. Operations can be captured into a CUDA graph. Destroy it only after its streams have been
/// waited for on all ranks.
class NcclCommunicator final : public DeviceCommunicator {
 public:
  /// Joins the group; returns once all ranks have joined, each from its own process or thread.
  /// @param id  from make_nccl_unique_id, the same on all ranks
  /// @throws InvalidArgument if rank is not in [0, size) or the device is not a GPU; CommunicationError
  NcclCommunicator(const NcclUniqueId& id, int rank, int size, const Device& device, NcclApi& api = nccl_api());
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const Device& device() const { return device_; }
  void check() override;
  void abandon() noexcept override;

 protected:
  void submit_all_gather(std::span<const DeviceGather> gathers, Stream& stream) override;
  void submit_all_reduce_sum(std::span<std::uint64_t> values, Stream& stream) override;
  void submit_all_reduce_max(std::span<std::uint32_t> values, Stream& stream) override;
  void submit_all_to_all(const std::uint8_t* outgoing, std::span<const ByteRange> to, std::uint8_t* incoming,
                         std::span<const ByteRange> from, Stream& stream) override;
  void submit_broadcast(std::span<std::uint8_t> bytes, int root, Stream& stream) override;
  void submit_vendor_sum(const FloatSpan& values, Stream& stream) override;
  std::unique_ptr<DeviceCommunicator> make_part(std::span<const int> parts, int rank, int size) override;

 private:
  using Group = std::vector<std::unique_ptr<NcclCommunicator>>;
  friend Group make_nccl_communicators(std::span<const Device> devices, NcclApi& api);
  friend Group join_nccl_communicators(std::span<const Device> devices, Communicator& processes, NcclApi& api);
  /// Takes ownership of NCCL communicators, for consecutive ranks from `first_rank`.
  static Group own(NcclApi& api, std::span<const NcclApi::Handle> handles, int first_rank, int size,
                   std::span<const Device> devices);
  NcclCommunicator(NcclHandle handle, int rank, int size, const Device& device)
      : handle_(std::move(handle)), rank_(rank), size_(size), device_(device) {}

  NcclApi& api() const { return handle_.api(); }
  /// Runs submit(), which returns NCCL's result, as one NCCL group: its calls become one launch and cannot deadlock
  /// each other.
  template <class Submit>
  void submit_group(const char* operation, const Stream& stream, const Submit& submit);
  NcclApi::Result gather(const DeviceGather& gather, void* stream);
  /// @throws CommunicationError with rank, operation, NCCL's error text and source location
  void require_success(NcclApi::Result result, const char* operation, const char* file, int line);

  NcclHandle handle_;
  int rank_;
  int size_;
  Device device_;
};

/// Creates the id of a group; to be called by one rank. @throws CommunicationError, NotSupported
NcclUniqueId make_nccl_unique_id(NcclApi& api = nccl_api());

/// Makes a group of this process's GPUs, rank r on devices[r]; each is to be used by its own thread.
/// @throws InvalidArgument for an empty list, a device that is not a GPU, or a repeated one; CommunicationError,
/// NotSupported
std::vector<std::unique_ptr<NcclCommunicator>> make_nccl_communicators(std::span<const Device> devices,
                                                                       NcclApi& api = nccl_api());

/// Makes a group of the GPUs of all processes, with equally many per process; a collective call of the processes, which
/// also sends the group's id from the first process to the others. GPU i of process p has rank p devices.size() + i.
/// Once all processes have joined the call, the wait for their GPUs has no timeout.
/// @param devices  GPUs of this process
/// @returns the communicators of `devices`, each to be used by its own thread
/// @throws as make_nccl_communicators, and CommunicationError on all processes if the first cannot create an id or if
/// processes have different numbers of GPUs
std::vector<std::unique_ptr<NcclCommunicator>> join_nccl_communicators(std::span<const Device> devices,
                                                                       Communicator& processes,
                                                                       NcclApi& api = nccl_api());

}  // namespace terngrad

#include "compress/comm/nccl/nccl_communicator.h"

#include <algorithm>
#include <array>
#include <exception>
#include <string>

#include "kernels/runtime/errors.h"

/// Checks the result of a call to NCCL in a member function of a rank.
#define TERNGRAD_NCCL_CHECK(call, operation) require_success((call), (operation), __FILE__, __LINE__)

namespace terngrad {
namespace {

using Result = NcclApi::Result;
using Type = NcclApi::Type;

/// NCCL's text for a failure.
std::string words_of(NcclApi& api, NcclApi::Handle handle, Result result) {
  const std::string last = api.last_error(handle);
  return api.error_text(result) + (last.empty() ? "" : " (" + last + ")");
}

void require_gpu(const Device& device) {
  TERNGRAD_REQUIRE(device.is_cuda(), "[nccl] a rank needs a GPU, got ", device.name());
}

NcclHandle join(const NcclUniqueId& id, int rank, int size, const Device& device, NcclApi& api) {
  TERNGRAD_REQUIRE(size >= 1 && rank >= 0 && rank < size, "[nccl] no rank ", rank, " in a group of ", size);
  require_gpu(device);
  NcclApi::Handle handle = nullptr;
  const Result result = api.init_rank(handle, size, id, rank, device.index());
  if (result != NcclApi::kSuccess) {
    TERNGRAD_THROW(CommunicationError, "[nccl] rank ", rank, " of ", size, " on ", device.name(),
                   ": joining the group failed: ", words_of(api, nullptr, result));
  }
  return {api, handle};
}

/// True if ncclAllGather can be used: it needs adjacent parts of equal size.
bool are_equal_and_touch(std::span<const ByteRange> parts) {
  for (std::size_t rank = 1; rank < parts.size(); ++rank) {
    const ByteRange& before = parts[rank - 1];
    if (parts[rank] != ByteRange{before.offset + before.count, before.count}) return false;
  }
  return true;
}

std::size_t bytes_of(const ByteRange& range) { return static_cast<std::size_t>(range.count); }

Type type_of(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return Type::kFloat32;
    case ElementType::kBfloat16:
      return Type::kBfloat16;
    case ElementType::kFloat16:
      return Type::kFloat16;
  }
  TERNGRAD_THROW(InvalidArgument, "[nccl] unknown element type ", static_cast<int>(type));
}

/// Indices of the GPUs. @throws InvalidArgument unless they are at least one, and all different
std::vector<int> indices_of(std::span<const Device> devices) {
  TERNGRAD_REQUIRE(!devices.empty(), "[nccl] a group needs at least one GPU");
  std::vector<int> indices;
  for (const Device& device : devices) {
    require_gpu(device);
    TERNGRAD_REQUIRE(std::find(indices.begin(), indices.end(), device.index()) == indices.end(), "[nccl] ",
                     device.name(), " comes twice: each rank needs its own GPU");
    indices.push_back(device.index());
  }
  return indices;
}

void require_equal_counts(std::uint32_t count, Communicator& processes) {
  std::array<std::uint32_t, 2> bounds = {count, ~count};  // maximum, and by the complement minimum
  processes.all_reduce_max(bounds);
  if (bounds[0] == ~bounds[1]) return;
  TERNGRAD_THROW(CommunicationError, "[nccl] processes of a group need as many GPUs each; they have from ", ~bounds[1],
                 " to ", bounds[0], ", this one ", count);
}

/// Broadcasts the first process's id.
NcclUniqueId broadcast_id(Communicator& processes, NcclApi& api) {
  std::exception_ptr error;
  NcclUniqueId id;
  if (processes.rank() == 0) {
    try {
      id = make_nccl_unique_id(api);
    } catch (const CommunicationError&) {
      error = std::current_exception();
    }
  }
  std::array<std::uint8_t, 1 + sizeof(id.bytes)> message{};
  message[0] = error ? 0 : 1;
  std::copy(id.bytes.begin(), id.bytes.end(), message.begin() + 1);
  processes.broadcast(message, 0);
  if (error) std::rethrow_exception(error);
  if (message[0] == 0) TERNGRAD_THROW(CommunicationError, "[nccl] the first process could not make the group's id");
  std::copy(message.begin() + 1, message.end(), id.bytes.begin());
  return id;
}

}  // namespace

NcclHandle::~NcclHandle() {
  if (handle_ == nullptr) return;
  const bool is_out_of_order = failed_ || std::uncaught_exceptions() > num_exceptions_;
  static_cast<void>(is_out_of_order ? api_->abort(handle_) : api_->destroy(handle_));
}

void NcclHandle::abort() noexcept {
  if (handle_ != nullptr) static_cast<void>(api_->abort(std::exchange(handle_, nullptr)));
}

void NcclCommunicator::abandon() noexcept { handle_.abort(); }

NcclCommunicator::NcclCommunicator(const NcclUniqueId& id, int rank, int size, const Device& device, NcclApi& api)
    : NcclCommunicator(join(id, rank, size, device, api), rank, size, device) {}

void NcclCommunicator::require_success(Result result, const char* operation, const char* file, int line) {
  if (result == NcclApi::kSuccess) return;
  handle_.mark_failed();
  TERNGRAD_THROW(CommunicationError, "[nccl] rank ", rank_, " of ", size_, " on ", device_.name(), ": ", operation,
                 " failed: ", words_of(api(), handle_.get(), result), ", at ", file, ":", line);
}

void NcclCommunicator::check() {
  Result error = NcclApi::kSuccess;
  TERNGRAD_NCCL_CHECK(api().get_async_error(handle_.get(), error), "asking for errors");
  if (error != NcclApi::kInProgress) TERNGRAD_NCCL_CHECK(error, "an operation submitted earlier");
}

std::unique_ptr<DeviceCommunicator> NcclCommunicator::make_part(std::span<const int> parts, int rank, int size) {
  NcclApi::Handle made = nullptr;
  TERNGRAD_NCCL_CHECK(api().split(handle_.get(), parts[static_cast<std::size_t>(rank_)], rank_, device_.index(), made),
                      "split");
  return std::unique_ptr<DeviceCommunicator>(new NcclCommunicator(NcclHandle(api(), made), rank, size, device_));
}

template <class Submit>
void NcclCommunicator::submit_group(const char* operation, const Stream& stream, const Submit& submit) {
  TERNGRAD_REQUIRE(stream.device() == device_, "[nccl] rank ", rank_, " is on ", device_.name(), ", got a stream of ",
                   stream.device().name());
  TERNGRAD_NCCL_CHECK(api().group_start(), operation);
  const Result submitted = submit();
  // A group belongs to the thread: it must end even after a failed call, or the next communicator's calls would join
  // it.
  const Result ended = api().group_end();
  TERNGRAD_NCCL_CHECK(submitted != NcclApi::kSuccess ? submitted : ended, operation);
}

Result NcclCommunicator::gather(const DeviceGather& gather, void* stream) {
  if (are_equal_and_touch(gather.parts)) {
    const ByteRange& own = gather.parts[static_cast<std::size_t>(rank_)];
    if (own.count == 0) return NcclApi::kSuccess;
    return api().all_gather(gather.buffer + own.offset, gather.buffer + gather.parts[0].offset, bytes_of(own),
                            Type::kUint8, handle_.get(), stream);
  }
  Result result = NcclApi::kSuccess;
  for (int root = 0; root < size_ && result == NcclApi::kSuccess; ++root) {
    const ByteRange& part = gather.parts[static_cast<std::size_t>(root)];
    if (part.count == 0) continue;
    std::uint8_t* const bytes = gather.buffer + part.offset;
    result = api().broadcast(bytes, bytes, bytes_of(part), Type::kUint8, root, handle_.get(), stream);
  }
  return result;
}

void NcclCommunicator::submit_all_gather(std::span<const DeviceGather> gathers, Stream& stream) {
  submit_group("all_gather", stream, [&] {
    Result result = NcclApi::kSuccess;
    for (std::size_t i = 0; i < gathers.size() && result == NcclApi::kSuccess; ++i) {
      result = gather(gathers[i], stream.native());
    }
    return result;
  });
}

void NcclCommunicator::submit_all_reduce_sum(std::span<std::uint64_t> values, Stream& stream) {
  submit_group("all_reduce_sum", stream, [&] {
    return api().all_reduce(values.data(), values.data(), values.size(), Type::kUint64, NcclApi::Reduction::kSum,
                            handle_.get(), stream.native());
  });
}

void NcclCommunicator::submit_all_reduce_max(std::span<std::uint32_t> values, Stream& stream) {
  submit_group("all_reduce_max", stream, [&] {
    return api().all_reduce(values.data(), values.data(), values.size(), Type::kUint32, NcclApi::Reduction::kMax,
                            handle_.get(), stream.native());
  });
}

void NcclCommunicator::submit_all_to_all(const std::uint8_t* outgoing, std::span<const ByteRange> to,
                                         std::uint8_t* incoming, std::span<const ByteRange> from, Stream& stream) {
  submit_group("all_to_all", stream, [&] {
    for (int peer = 0; peer < size_; ++peer) {
      const ByteRange& there = to[static_cast<std::size_t>(peer)];
      const ByteRange& here = from[static_cast<std::size_t>(peer)];
      Result result = NcclApi::kSuccess;
      // The receiver sees an empty part too, so both skip it.
      if (there.count > 0) {
        result =
            api().send(outgoing + there.offset, bytes_of(there), Type::kUint8, peer, handle_.get(), stream.native());
      }
      if (result == NcclApi::kSuccess && here.count > 0) {
        result =
            api().receive(incoming + here.offset, bytes_of(here), Type::kUint8, peer, handle_.get(), stream.native());
      }
      if (result != NcclApi::kSuccess) return result;
    }
    return NcclApi::kSuccess;
  });
}

void NcclCommunicator::submit_broadcast(std::span<std::uint8_t> bytes, int root, Stream& stream) {
  submit_group("broadcast", stream, [&] {
    return api().broadcast(bytes.data(), bytes.data(), bytes.size(), Type::kUint8, root, handle_.get(),
                           stream.native());
  });
}

void NcclCommunicator::submit_vendor_sum(const FloatSpan& values, Stream& stream) {
  submit_group("vendor_sum", stream, [&] {
    return api().all_reduce(values.values, values.values, static_cast<std::size_t>(values.count), type_of(values.type),
                            NcclApi::Reduction::kSum, handle_.get(), stream.native());
  });
}

NcclUniqueId make_nccl_unique_id(NcclApi& api) {
  NcclUniqueId id;
  const Result result = api.get_unique_id(id);
  if (result != NcclApi::kSuccess) {
    TERNGRAD_THROW(CommunicationError, "[nccl] making the id of a group failed: ", words_of(api, nullptr, result));
  }
  return id;
}

NcclCommunicator::Group NcclCommunicator::own(NcclApi& api, std::span<const NcclApi::Handle> handles, int first_rank,
                                              int size, std::span<const Device> devices) {
  // All handles are owned at once, so that none leaks if memory runs out.
  std::vector<NcclHandle> owned;
  owned.reserve(handles.size());
  for (const NcclApi::Handle handle : handles) owned.emplace_back(api, handle);
  Group group;
  for (std::size_t i = 0; i < owned.size(); ++i) {
    group.push_back(std::unique_ptr<NcclCommunicator>(
        new NcclCommunicator(std::move(owned[i]), first_rank + static_cast<int>(i), size, devices[i])));
  }
  return group;
}

std::vector<std::unique_ptr<NcclCommunicator>> make_nccl_communicators(std::span<const Device> devices, NcclApi& api) {
  const std::vector<int> indices = indices_of(devices);
  const auto size = static_cast<int>(devices.size());
  std::vector<NcclApi::Handle> handles(devices.size());
  const Result result = api.init_all(handles, indices);
  if (result != NcclApi::kSuccess) {
    TERNGRAD_THROW(CommunicationError, "[nccl] making a group of ", size,
                   " GPUs failed: ", words_of(api, nullptr, result));
  }
  return NcclCommunicator::own(api, handles, 0, size, devices);
}

std::vector<std::unique_ptr<NcclCommunicator>> join_nccl_communicators(std::span<const Device> devices,
                                                                       Communicator& processes, NcclApi& api) {
  const std::vector<int> indices = indices_of(devices);
  require_equal_counts(static_cast<std::uint32_t>(devices.size()), processes);
  const NcclUniqueId id = broadcast_id(processes, api);
  const int count = static_cast<int>(devices.size());
  const int first_rank = processes.rank() * count;
  const int size = processes.size() * count;
  std::vector<NcclApi::Handle> handles(devices.size());
  const Result result = api.init_ranks(handles, size, id, first_rank, indices);
  if (result == NcclApi::kSuccess) return NcclCommunicator::own(api, handles, first_rank, size, devices);
  const std::string words = words_of(api, nullptr, result);
  for (const NcclApi::Handle handle : handles) NcclHandle(api, handle).abort();
  TERNGRAD_THROW(CommunicationError, "[nccl] ranks ", first_rank, " to ", first_rank + count - 1, " of ", size,
                 ": joining the group failed: ", words);
}

}  // namespace terngrad

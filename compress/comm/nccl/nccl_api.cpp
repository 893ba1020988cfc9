#include "compress/comm/nccl/nccl_api.h"

#include "kernels/runtime/errors.h"

#ifdef TERNGRAD_WITH_NCCL

#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <vector>

#include "kernels/runtime/device_guard.h"

namespace terngrad {
namespace {

static_assert(sizeof(ncclUniqueId) == sizeof(NcclUniqueId::bytes));
static_assert(NcclApi::kSuccess == ncclSuccess && NcclApi::kInProgress == ncclInProgress);

ncclComm_t native(NcclApi::Handle handle) { return static_cast<ncclComm_t>(handle); }
cudaStream_t native_stream(void* stream) { return static_cast<cudaStream_t>(stream); }

ncclDataType_t native(NcclApi::Type type) {
  switch (type) {
    case NcclApi::Type::kUint8:
      return ncclUint8;
    case NcclApi::Type::kUint32:
      return ncclUint32;
    case NcclApi::Type::kUint64:
      return ncclUint64;
    case NcclApi::Type::kFloat16:
      return ncclFloat16;
    case NcclApi::Type::kBfloat16:
      return ncclBfloat16;
    case NcclApi::Type::kFloat32:
      return ncclFloat32;
  }
  TERNGRAD_THROW(InvalidArgument, "[nccl] unknown type ", static_cast<int>(type));
}

ncclRedOp_t native(NcclApi::Reduction reduction) { return reduction == NcclApi::Reduction::kSum ? ncclSum : ncclMax; }

/// Calls `work` with the GPU current, without creating a context on any other GPU.
template <class Work>
ncclResult_t on_gpu(int device, const Work& work) {
  try {
    const DeviceGuard guard(Device::cuda(device));
    return work();
  } catch (const Error&) {
    return ncclUnhandledCudaError;
  }
}

class Nccl final : public NcclApi {
 public:
  Result get_unique_id(NcclUniqueId& id) override {
    ncclUniqueId made;
    const ncclResult_t result = ncclGetUniqueId(&made);
    if (result == ncclSuccess) std::copy_n(made.internal, id.bytes.size(), id.bytes.begin());
    return result;
  }
  Result init_rank(Handle& handle, int size, const NcclUniqueId& id, int rank, int device) override {
    ncclUniqueId common;
    std::copy_n(id.bytes.begin(), id.bytes.size(), common.internal);
    ncclComm_t made = nullptr;
    const ncclResult_t result = on_gpu(device, [&] { return ncclCommInitRank(&made, size, common, rank); });
    handle = made;
    return result;
  }
  Result init_ranks(std::span<Handle> handles, int size, const NcclUniqueId& id, int first_rank,
                    std::span<const int> devices) override {
    ncclUniqueId common;
    std::copy_n(id.bytes.begin(), id.bytes.size(), common.internal);
    // NCCL writes these when the group ends, so they must not be reallocated until then.
    std::vector<ncclComm_t> made(devices.size(), nullptr);
    // Checks the GPUs before the group begins, since a group ends only when all of its ranks have joined.
    for (const int device : devices) {
      const ncclResult_t found = on_gpu(device, [] { return ncclSuccess; });
      if (found != ncclSuccess) return found;
    }
    ncclResult_t result = ncclGroupStart();
    if (result != ncclSuccess) return result;
    for (std::size_t i = 0; i < devices.size() && result == ncclSuccess; ++i) {
      result = on_gpu(devices[i],
                      [&] { return ncclCommInitRank(&made[i], size, common, first_rank + static_cast<int>(i)); });
    }
    const ncclResult_t ended = ncclGroupEnd();
    if (result == ncclSuccess) result = ended;
    std::copy(made.begin(), made.end(), handles.begin());
    return result;
  }
  Result init_all(std::span<Handle> handles, std::span<const int> devices) override {
    std::vector<ncclComm_t> made(devices.size());
    const ncclResult_t result = ncclCommInitAll(made.data(), static_cast<int>(devices.size()), devices.data());
    if (result == ncclSuccess) std::copy(made.begin(), made.end(), handles.begin());
    return result;
  }
  Result split(Handle handle, int color, int key, int device, Handle& made) override {
    ncclComm_t part = nullptr;
    const ncclResult_t result =
        on_gpu(device, [&] { return ncclCommSplit(native(handle), color, key, &part, nullptr); });
    made = part;
    return result;
  }
  Result destroy(Handle handle) override { return ncclCommDestroy(native(handle)); }
  Result abort(Handle handle) override { return ncclCommAbort(native(handle)); }
  Result get_async_error(Handle handle, Result& error) override {
    ncclResult_t found = ncclSuccess;
    const ncclResult_t result = ncclCommGetAsyncError(native(handle), &found);
    error = found;
    return result;
  }
  std::string error_text(Result result) override { return ncclGetErrorString(static_cast<ncclResult_t>(result)); }
  std::string last_error(Handle handle) override {
    const char* const text = ncclGetLastError(native(handle));
    return text == nullptr ? "" : text;
  }

  Result group_start() override { return ncclGroupStart(); }
  Result group_end() override { return ncclGroupEnd(); }
  Result all_gather(const void* send, void* receive, std::size_t send_count, Type type, Handle handle,
                    void* stream) override {
    return ncclAllGather(send, receive, send_count, native(type), native(handle), native_stream(stream));
  }
  Result broadcast(const void* send, void* receive, std::size_t count, Type type, int root, Handle handle,
                   void* stream) override {
    return ncclBroadcast(send, receive, count, native(type), root, native(handle), native_stream(stream));
  }
  Result all_reduce(const void* send, void* receive, std::size_t count, Type type, Reduction reduction, Handle handle,
                    void* stream) override {
    return ncclAllReduce(send, receive, count, native(type), native(reduction), native(handle), native_stream(stream));
  }
  Result send(const void* from, std::size_t count, Type type, int peer, Handle handle, void* stream) override {
    return ncclSend(from, count, native(type), peer, native(handle), native_stream(stream));
  }
  Result receive(void* to, std::size_t count, Type type, int peer, Handle handle, void* stream) override {
    return ncclRecv(to, count, native(type), peer, native(handle), native_stream(stream));
  }
};

}  // namespace

bool has_nccl() { return true; }

NcclApi& nccl_api() {
  static Nccl library;
  return library;
}

std::string nccl_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) TERNGRAD_THROW(CommunicationError, "[nccl] ncclGetVersion failed");
  // Encoding since 2.9; the build refuses older versions.
  return "NCCL " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace terngrad

#else

namespace terngrad {

bool has_nccl() { return false; }

NcclApi& nccl_api() {
  TERNGRAD_THROW(NotSupported,
                 "[nccl] this build has no NCCL: install NCCL 2.18 or later beside the CUDA Toolkit and "
                 "configure with -DTERNGRAD_NCCL=ON");
}

std::string nccl_version() {
  nccl_api();
  return {};
}

}  // namespace terngrad

#endif

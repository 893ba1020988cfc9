// Replaces compress/comm/nccl/nccl_api.cpp where GPUs are emulated: MPI operations between processes with one GPU each.
#include <cuda_runtime.h>
#include <mpi.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "compress/comm/nccl/nccl_api.h"

namespace terngrad {
namespace {

/// MPI_DATATYPE_NULL for types of 16 bits, which MPI does not add.
MPI_Datatype native(NcclApi::Type type) {
  switch (type) {
    case NcclApi::Type::kUint8:
      return MPI_UINT8_T;
    case NcclApi::Type::kUint32:
      return MPI_UINT32_T;
    case NcclApi::Type::kUint64:
      return MPI_UINT64_T;
    case NcclApi::Type::kFloat32:
      return MPI_FLOAT;
    default:
      return MPI_DATATYPE_NULL;
  }
}

/// Operations run when the stream does, in the emulation immediately: the host waits for them. If one does not finish
/// within NCCL_OVER_MPI_PATIENCE seconds (default: no limit), the stream hangs until abort, as on a GPU.
class NcclOverMpi final : public NcclApi {
 public:
  Result get_unique_id(NcclUniqueId& id) override {
    id.bytes[0] = 'm';
    return kSuccess;
  }
  Result init_rank(Handle& handle, int size, const NcclUniqueId& id, int rank, int device) override {
    return init_ranks({&handle, 1}, size, id, rank, {&device, 1});
  }
  Result init_ranks(std::span<Handle> handles, int size, const NcclUniqueId& id, int first_rank,
                    std::span<const int> devices) override {
    int processes = 0;
    int own = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    if (devices.size() != 1 || size > processes || first_rank != own || id.bytes[0] != 'm') return kInvalidUsage;
    // The first ranks: the last rank of the launch may not take part.
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group members = MPI_GROUP_NULL;
    int range[1][3] = {{0, size - 1, 1}};
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_range_incl(all, 1, range, &members);
    MPI_Comm group = MPI_COMM_NULL;
    MPI_Comm_create_group(MPI_COMM_WORLD, members, 0, &group);
    MPI_Group_free(&members);
    MPI_Group_free(&all);
    handles[0] = keep(group);
    return kSuccess;
  }
  Result split(Handle handle, int color, int key, int, Handle& made) override {
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Comm_split(of(handle), color, key, &part);
    made = keep(part);
    return kSuccess;
  }
  Result init_all(std::span<Handle>, std::span<const int>) override { return kInvalidUsage; }
  // Freed by MPI_Finalize: freeing is collective, and a rank that gives up does not take part.
  Result destroy(Handle) override { return kSuccess; }
  Result abort(Handle) override {
    if (hanging_ != nullptr) *hanging_->hangs = false;
    return kSuccess;
  }
  Result get_async_error(Handle, Result& error) override {
    error = kSuccess;
    return kSuccess;
  }
  std::string error_text(Result) override { return "a process has one emulated GPU"; }
  std::string last_error(Handle) override { return ""; }

  Result group_start() override { return kSuccess; }
  Result group_end() override {
    cudaStream_t const stream = std::exchange(stream_, nullptr);
    if (stream == nullptr) return kSuccess;
    simt::submit(stream, [this, stream, starts = std::exchange(starts_, {})] {
      std::vector<MPI_Request> requests;
      for (const Start& start : starts) requests.push_back(start());
      wait(requests, stream);
    });
    return kSuccess;
  }
  Result all_gather(const void* send, void* receive, std::size_t send_count, Type type, Handle handle,
                    void* stream) override {
    return add(stream, [=](MPI_Request* request) {
      // In place under NCCL's condition: the rank's part lies at its position in the result.
      int rank = 0;
      MPI_Comm_rank(of(handle), &rank);
      const bool in_place = send == static_cast<std::uint8_t*>(receive) + static_cast<std::size_t>(rank) * send_count;
      const auto count = static_cast<int>(send_count);
      MPI_Iallgather(in_place ? MPI_IN_PLACE : send, count, native(type), receive, count, native(type), of(handle),
                     request);
    });
  }
  Result broadcast(const void*, void* receive, std::size_t count, Type type, int root, Handle handle,
                   void* stream) override {
    return add(stream, [=](MPI_Request* request) {
      MPI_Ibcast(receive, static_cast<int>(count), native(type), root, of(handle), request);
    });
  }
  Result all_reduce(const void*, void* receive, std::size_t count, Type type, Reduction reduction, Handle handle,
                    void* stream) override {
    if (native(type) == MPI_DATATYPE_NULL) return kInvalidUsage;
    return add(stream, [=](MPI_Request* request) {
      MPI_Iallreduce(MPI_IN_PLACE, receive, static_cast<int>(count), native(type),
                     reduction == Reduction::kSum ? MPI_SUM : MPI_MAX, of(handle), request);
    });
  }
  Result send(const void* from, std::size_t count, Type type, int peer, Handle handle, void* stream) override {
    return add(stream, [=](MPI_Request* request) {
      MPI_Isend(from, static_cast<int>(count), native(type), peer, 0, of(handle), request);
    });
  }
  Result receive(void* to, std::size_t count, Type type, int peer, Handle handle, void* stream) override {
    return add(stream, [=](MPI_Request* request) {
      MPI_Irecv(to, static_cast<int>(count), native(type), peer, 0, of(handle), request);
    });
  }

 private:
  using Start = std::function<MPI_Request()>;
  static constexpr Result kInvalidUsage = 5;

  static MPI_Comm of(Handle handle) { return *static_cast<MPI_Comm*>(handle); }
  Handle keep(MPI_Comm group) {
    groups_.push_back(std::make_unique<MPI_Comm>(group));
    return groups_.back().get();
  }

  template <class Submit>
  Result add(void* stream, const Submit& submit) {
    stream_ = static_cast<cudaStream_t>(stream);
    starts_.push_back([submit] {
      MPI_Request request = MPI_REQUEST_NULL;
      submit(&request);
      return request;
    });
    return kSuccess;
  }

  void wait(std::vector<MPI_Request>& requests, cudaStream_t stream) {
    if (*stream->hangs) return;  // earlier work of the stream has not ended
    const char* const patience = std::getenv("NCCL_OVER_MPI_PATIENCE");
    const auto begin = std::chrono::steady_clock::now();
    for (int done = 0; done == 0;) {
      MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
      if (done == 0 && patience != nullptr && waited.count() > std::atof(patience)) {
        hanging_ = stream;
        *stream->hangs = true;
        return;
      }
      if (done == 0) std::this_thread::yield();
    }
  }

  std::vector<std::unique_ptr<MPI_Comm>> groups_;
  std::vector<Start> starts_;  // calls of the open group
  cudaStream_t stream_ = nullptr;
  cudaStream_t hanging_ = nullptr;
};

}  // namespace

bool has_nccl() { return true; }

NcclApi& nccl_api() {
  static NcclOverMpi library;
  return library;
}

std::string nccl_version() { return "NCCL over MPI"; }

}  // namespace terngrad

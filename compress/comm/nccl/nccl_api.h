// NcclApi: the functions of NCCL 2 that NcclCommunicator calls, without NCCL's headers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace terngrad {

/// What the ranks of a group have in common: made by one of them, handed to the others by whatever connects them.
struct NcclUniqueId {
  std::array<char, 128> bytes{};

  friend bool operator==(const NcclUniqueId&, const NcclUniqueId&) = default;
};

/// The table of NCCL's functions. Arguments are NCCL's, in its order; tests hand in a table that records.
class NcclApi {
 public:
  using Handle = void*;  // ncclComm_t
  using Result = int;    // ncclResult_t
  static constexpr Result kSuccess = 0;
  static constexpr Result kInProgress = 7;
  enum class Type { kUint8, kUint32, kUint64 };
  enum class Reduction { kSum, kMax };

  NcclApi() = default;
  virtual ~NcclApi() = default;
  NcclApi(const NcclApi&) = delete;
  NcclApi& operator=(const NcclApi&) = delete;

  virtual Result get_unique_id(NcclUniqueId& id) = 0;
  /// Waits for the other ranks. @param device  is made current for the call, as NCCL wants it
  virtual Result init_rank(Handle& handle, int size, const NcclUniqueId& id, int rank, int device) = 0;
  /// Makes ranks [first_rank, first_rank + devices.size()) of a group of `size`, in a group of calls; waits for the
  /// other ranks. @param handles  [devices.size()] of those that were made, null where one was not
  virtual Result init_ranks(std::span<Handle> handles, int size, const NcclUniqueId& id, int first_rank,
                            std::span<const int> devices) = 0;
  /// @param handles  [devices.size()]
  virtual Result init_all(std::span<Handle> handles, std::span<const int> devices) = 0;
  virtual Result destroy(Handle handle) = 0;
  virtual Result abort(Handle handle) = 0;
  virtual Result get_async_error(Handle handle, Result& error) = 0;
  /// "unhandled system error" and the like.
  virtual std::string error_text(Result result) = 0;
  /// NCCL's own account of the last error, which may be empty. @param handle  may be null
  virtual std::string last_error(Handle handle) = 0;

  virtual Result group_start() = 0;
  virtual Result group_end() = 0;
  virtual Result all_gather(const void* send, void* receive, std::size_t send_count, Type type, Handle handle,
                            void* stream) = 0;
  virtual Result broadcast(const void* send, void* receive, std::size_t count, Type type, int root, Handle handle,
                           void* stream) = 0;
  virtual Result all_reduce(const void* send, void* receive, std::size_t count, Type type, Reduction reduction,
                            Handle handle, void* stream) = 0;
  virtual Result send(const void* from, std::size_t count, Type type, int peer, Handle handle, void* stream) = 0;
  virtual Result receive(void* to, std::size_t count, Type type, int peer, Handle handle, void* stream) = 0;
};

/// Whether this build has NCCL.
bool has_nccl();
/// The library. @throws NotSupported in a build without it
NcclApi& nccl_api();
/// "NCCL 2.28.9", the version that is loaded. @throws NotSupported in a build without NCCL
std::string nccl_version();

}  // namespace terngrad

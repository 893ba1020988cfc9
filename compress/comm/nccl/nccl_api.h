// NcclApi: the NCCL 2 functions that NcclCommunicator calls, without NCCL's headers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace terngrad {

/// Identifies a group of ranks: created by one rank, and passed to the others by other means.
struct NcclUniqueId {
  std::array<char, 128> bytes{};

  friend bool operator==(const NcclUniqueId&, const NcclUniqueId&) = default;
};

/// Interface to NCCL's functions, with NCCL's arguments in NCCL's order. Tests use an implementation that records
/// calls.
class NcclApi {
 public:
  using Handle = void*;  // ncclComm_t
  using Result = int;    // ncclResult_t
  static constexpr Result kSuccess = 0;
  static constexpr Result kInProgress = 7;
  enum class Type { kUint8, kUint32, kUint64, kFloat16, kBfloat16, kFloat32 };
  enum class Reduction { kSum, kMax };

  NcclApi() = default;
  virtual ~NcclApi() = default;
  NcclApi(const NcclApi&) = delete;
  NcclApi& operator=(const NcclApi&) = delete;

  virtual Result get_unique_id(NcclUniqueId& id) = 0;
  /// Waits for the other ranks. @param device  made current for the call, as NCCL requires
  virtual Result init_rank(Handle& handle, int size, const NcclUniqueId& id, int rank, int device) = 0;
  /// Creates ranks [first_rank, first_rank + devices.size()) of a group of `size` in one group call; waits for the
  /// other ranks. @param handles  [devices.size()] out: null for ranks that were not created
  virtual Result init_ranks(std::span<Handle> handles, int size, const NcclUniqueId& id, int first_rank,
                            std::span<const int> devices) = 0;
  /// @param handles  [devices.size()]
  virtual Result init_all(std::span<Handle> handles, std::span<const int> devices) = 0;
  /// Makes the group of the ranks with the same color, in the order of `key`; waits for the other ranks.
  /// @param device  that of the rank
  virtual Result split(Handle handle, int color, int key, int device, Handle& made) = 0;
  virtual Result destroy(Handle handle) = 0;
  virtual Result abort(Handle handle) = 0;
  virtual Result get_async_error(Handle handle, Result& error) = 0;
  /// Text for a result, such as "unhandled system error".
  virtual std::string error_text(Result result) = 0;
  /// NCCL's description of the last error; may be empty. @param handle  may be null
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

/// True if this build has NCCL.
bool has_nccl();
/// The real library. @throws NotSupported in a build without it
NcclApi& nccl_api();
/// Version of the loaded library: "NCCL 2.28.9". @throws NotSupported in a build without NCCL
std::string nccl_version();

}  // namespace terngrad

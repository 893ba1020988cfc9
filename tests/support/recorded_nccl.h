// A stand-in for NCCL that records calls and returns errors on demand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "compress/comm/nccl/nccl_api.h"

namespace terngrad::testing {

/// Records calls as text, e.g. "broadcast +8 24 uint8 root 1 stream": addresses relative to `base`; "stream" is the
/// expected stream `stream`.
class RecordedNccl final : public NcclApi {
 public:
  std::vector<std::string> calls;
  const std::uint8_t* base = nullptr;
  void* stream = nullptr;
  std::string failing;               // calls that start with this return `error`
  Result error = 6;                  // ncclRemoteError
  Result async_error = kSuccess;     // returned by get_async_error
  std::string last = "peer 1 left";  // returned by last_error

  Result get_unique_id(NcclUniqueId& id) override {
    id.bytes[0] = 'i';
    return note("get_unique_id");
  }
  Result init_rank(Handle& handle, int size, const NcclUniqueId& id, int rank, int device) override {
    const Result result = note("init_rank ", rank, " of ", size, " id ", id.bytes[0], " device ", device);
    if (result == kSuccess) handle = &handles_[static_cast<std::size_t>(rank)];
    return result;
  }
  Result init_ranks(std::span<Handle> handles, int size, const NcclUniqueId& id, int first_rank,
                    std::span<const int> devices) override {
    std::string list;
    for (const int device : devices) list += " " + std::to_string(device);
    const Result result = note("init_ranks from ", first_rank, " of ", size, " id ", id.bytes[0], " devices", list);
    // On failure NCCL may have created one communicator of the group.
    const std::size_t num_made = result == kSuccess ? handles.size() : 1;
    for (std::size_t i = 0; i < num_made; ++i) handles[i] = &handles_[static_cast<std::size_t>(first_rank) + i];
    return result;
  }
  Result init_all(std::span<Handle> handles, std::span<const int> devices) override {
    std::string list;
    for (const int device : devices) list += " " + std::to_string(device);
    const Result result = note("init_all", list);
    if (result != kSuccess) return result;
    for (std::size_t rank = 0; rank < handles.size(); ++rank) handles[rank] = &handles_[rank];
    return result;
  }
  Result split(Handle handle, int color, int key, int device, Handle& made) override {
    made = &handles_[static_cast<std::size_t>(color)];
    return note("split", of(handle), " color ", color, " key ", key, " device ", device);
  }
  Result destroy(Handle handle) override { return note("destroy", of(handle)); }
  Result abort(Handle handle) override { return note("abort", of(handle)); }
  Result get_async_error(Handle, Result& found) override {
    found = async_error;
    return note("get_async_error");
  }
  std::string error_text(Result result) override { return "error " + std::to_string(result); }
  std::string last_error(Handle) override { return last; }

  Result group_start() override { return note("group_start"); }
  Result group_end() override { return note("group_end"); }
  Result all_gather(const void* send, void* receive, std::size_t send_count, Type type, Handle handle,
                    void* on) override {
    return note("all_gather ", at(send), " into ", at(receive), " ", send_count, " ", text(type), of(handle),
                where(on));
  }
  Result broadcast(const void* send, void* receive, std::size_t count, Type type, int root, Handle handle,
                   void* on) override {
    const char* const place = send == receive ? " in place " : " elsewhere ";
    return note("broadcast ", at(send), place, count, " ", text(type), " root ", root, of(handle), where(on));
  }
  Result all_reduce(const void* send, void* receive, std::size_t count, Type type, Reduction reduction, Handle handle,
                    void* on) override {
    const char* const place = send == receive ? " in place " : " elsewhere ";
    return note("all_reduce ", at(send), place, count, " ", text(type), reduction == Reduction::kSum ? " sum" : " max",
                of(handle), where(on));
  }
  Result send(const void* from, std::size_t count, Type type, int peer, Handle handle, void* on) override {
    return note("send ", at(from), " ", count, " ", text(type), " to ", peer, of(handle), where(on));
  }
  Result receive(void* to, std::size_t count, Type type, int peer, Handle handle, void* on) override {
    return note("receive ", at(to), " ", count, " ", text(type), " from ", peer, of(handle), where(on));
  }

 private:
  template <class... Parts>
  Result note(const Parts&... parts) {
    std::ostringstream out;
    (out << ... << parts);
    calls.push_back(out.str());
    return !failing.empty() && calls.back().starts_with(failing) ? error : kSuccess;
  }
  std::string at(const void* address) const {
    return "+" + std::to_string(static_cast<const std::uint8_t*>(address) - base);
  }
  std::string where(void* on) const { return on == stream && on != nullptr ? " stream" : " ANOTHER STREAM"; }
  std::string of(Handle handle) const { return " as " + std::to_string(static_cast<const char*>(handle) - handles_); }
  static std::string text(Type type) {
    constexpr const char* kNames[] = {"uint8", "uint32", "uint64", "float16", "bfloat16", "float32"};
    return kNames[static_cast<int>(type)];
  }
  char handles_[8] = {};
};

}  // namespace terngrad::testing

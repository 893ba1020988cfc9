// The structs of DLPack 1.x and of its unversioned predecessor, copied so that its header need not be installed.
#pragma once

#include <cstdint>

namespace terngrad::capi::dlpack {

inline constexpr std::uint32_t kMajorVersion = 1;
inline constexpr std::uint64_t kReadOnly = 1;  // bit of the flags
inline constexpr std::uint8_t kFloat = 2;      // type codes
inline constexpr std::uint8_t kBfloat = 4;

struct Tensor {
  void* data;
  struct {
    std::int32_t type;
    std::int32_t id;
  } device;
  std::int32_t ndim;
  struct {
    std::uint8_t code;
    std::uint8_t bits;
    std::uint16_t lanes;
  } dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: compact
  std::uint64_t byte_offset;
};

struct ManagedTensor {
  Tensor tensor;
  void* manager_context;
  void (*deleter)(void*);
};

struct ManagedTensorVersioned {
  struct {
    std::uint32_t major;
    std::uint32_t minor;
  } version;
  void* manager_context;
  void (*deleter)(void*);
  std::uint64_t flags;
  Tensor tensor;
};

}  // namespace terngrad::capi::dlpack

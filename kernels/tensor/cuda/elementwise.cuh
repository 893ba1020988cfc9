// Element-wise kernels: a functor for one element, applied to any number of arrays of one length.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/runtime/cuda/launch.cuh"

namespace terngrad::cuda {

/// How elements are spread over threads. A thread takes kPacks packs of kLanes neighbouring elements, and loads all of
/// them before it stores the first, so that many loads are in flight.
struct ElementwisePolicy {
  static constexpr unsigned kThreads = 256;
  /// 16 bytes of float32 and 8 bytes of a 16-bit type: of both, a warp reads and writes whole sectors of 32 bytes.
  /// Eight would be 16 bytes of the narrow type, but make each access to the wide one fill every other half sector.
  static constexpr int kLanes = 4;
  static constexpr int kPacks = 2;
};

/// One array in and one out, of which one is narrow: more packs make up for its fewer bytes.
struct ConversionPolicy : ElementwisePolicy {
  static constexpr int kPacks = 4;
};

/// An array that is read, one that is written, and one that is both.
template <class T>
struct Input {
  using Value = T;
  static constexpr bool kRead = true;
  static constexpr bool kWritten = false;
  const T* values;
};
template <class T>
struct Output {
  using Value = T;
  static constexpr bool kRead = false;
  static constexpr bool kWritten = true;
  T* values;
};
template <class T>
struct InputOutput {
  using Value = T;
  static constexpr bool kRead = true;
  static constexpr bool kWritten = true;
  T* values;
};

/// Bytes that one access moves: those of a pack, 16 at most.
template <class T, int kLanes>
constexpr std::size_t access_bytes() {
  return kLanes * sizeof(T) < 16 ? kLanes * sizeof(T) : 16;
}

/// One thread's elements of an operand, in registers: packs of kLanes elements, `stride` elements apart.
template <class Operand, int kLanes, int kPacks>
class Window {
 public:
  using Value = typename Operand::Value;

  __device__ Window(const Operand& operand, std::int64_t first, std::int64_t stride)
      : operand_(operand), first_(first), stride_(stride) {
    if constexpr (Operand::kRead) {
#pragma unroll
      for (int pack = 0; pack < kPacks; ++pack) {
        const auto* from = reinterpret_cast<const Access*>(operand_.values + first_ + pack * stride_);
#pragma unroll
        for (int i = 0; i < kAccesses; ++i) accesses_[pack * kAccesses + i] = from[i];
      }
    }
  }

  __device__ void store() const {
    if constexpr (Operand::kWritten) {
#pragma unroll
      for (int pack = 0; pack < kPacks; ++pack) {
        auto* to = reinterpret_cast<Access*>(operand_.values + first_ + pack * stride_);
#pragma unroll
        for (int i = 0; i < kAccesses; ++i) to[i] = accesses_[pack * kAccesses + i];
      }
    }
  }

  /// Element `i` of kPacks * kLanes.
  __device__ Value& operator[](int i) { return accesses_[i / kPerAccess].values[i % kPerAccess]; }

 private:
  static constexpr int kPerAccess = static_cast<int>(access_bytes<Value, kLanes>() / sizeof(Value));
  static constexpr int kAccesses = kLanes / kPerAccess;
  static_assert(kLanes % kPerAccess == 0, "a pack is whole accesses");
  struct alignas(access_bytes<Value, kLanes>()) Access {
    Value values[std::size_t{kPerAccess}];
  };
  Operand operand_;
  std::int64_t first_;
  std::int64_t stride_;
  Access accesses_[std::size_t{kPacks * kAccesses}];
};

/// Calls the functor for the kCount elements of the windows and stores them. A functor that returns a bool says whether
/// it changed anything: where none did, nothing is stored.
template <int kCount, class Op, class... Windows>
__device__ void apply(Op& op, Windows... windows) {
  bool changed = false;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if constexpr (std::is_same_v<decltype(op(windows[0]...)), bool>) {
      changed |= op(windows[i]...);
    } else {
      op(windows[i]...);
      changed = true;
    }
  }
  if (changed) (windows.store(), ...);
}

/// What a functor has besides operator(), to be derived from: every thread has its own copy, calls begin() and, if
/// that is true, end() when its elements are done. begin() must return the same in all threads, so all reach end().
struct ElementwiseOp {
  __device__ bool begin() { return true; }
  __device__ void end() {}
};

/// Element i of the arrays is in pack (i + shift) / kLanes, so that packs begin at aligned addresses. Packs that are
/// not whole, at either end, are taken element by element.
template <unsigned kThreads, int kLanes, int kPacks, class Op, class... Operands>
__global__ void __launch_bounds__(kThreads)
    elementwise_kernel(std::int64_t count, std::int64_t shift, Op op, Operands... operands) {
  if (!op.begin()) return;
  constexpr std::int64_t kStride = std::int64_t{kThreads} * kLanes;
  const std::int64_t first = blockIdx.x * (kPacks * kStride) + std::int64_t{threadIdx.x} * kLanes - shift;
  if (first >= 0 && first + (kPacks - 1) * kStride + kLanes <= count) {
    apply<kPacks * kLanes>(op, Window<Operands, kLanes, kPacks>(operands, first, kStride)...);
  } else {
#pragma unroll 1
    for (int i = 0; i < kPacks * kLanes; ++i) {
      const std::int64_t at = first + i / kLanes * kStride + i % kLanes;
      if (at >= 0 && at < count) apply<1>(op, Window<Operands, 1, 1>(operands, at, 0)...);
    }
  }
  op.end();
}

/// Elements to go until all operands are aligned for accesses of whole packs; -1 if they never are at once.
template <int kLanes, class... Operands>
int elements_to_alignment(const Operands&... operands) {
  const auto is_aligned = [](const auto* values) {
    return reinterpret_cast<std::uintptr_t>(values) % access_bytes<std::remove_cvref_t<decltype(*values)>, kLanes>() ==
           0;
  };
  for (int head = 0; head < kLanes; ++head) {
    if ((is_aligned(operands.values + head) && ...)) return head;
  }
  return -1;
}

template <unsigned kThreads, int kLanes, int kPacks, class Op, class... Operands>
void launch_packs(std::size_t count, std::int64_t shift, const Stream& stream, const Op& op, Operands... operands) {
  void (*const kernel)(std::int64_t, std::int64_t, Op, Operands...) =
      elementwise_kernel<kThreads, kLanes, kPacks, Op, Operands...>;
  const auto num_elements = static_cast<std::int64_t>(count);
  const unsigned blocks = num_blocks_for(num_elements + shift, std::int64_t{kThreads} * kLanes * kPacks);
  launch(kernel, dim3(blocks), dim3(kThreads), 0, stream, num_elements, shift, op, operands...);
}

/// Calls op(a[i], b[i], ...) for every i < count, with vector accesses where the operands can be aligned together and
/// element by element otherwise. Outputs may not overlap other operands. The host does not wait.
/// @throws DeviceError
template <class Policy = ElementwisePolicy, class Op, class... Operands>
void launch_elementwise(std::size_t count, const Stream& stream, const Op& op, Operands... operands) {
  if (count == 0) return;
  const int head = elements_to_alignment<Policy::kLanes>(operands...);
  if (head < 0) {
    launch_packs<Policy::kThreads, 1, Policy::kLanes * Policy::kPacks>(count, 0, stream, op, operands...);
  } else {
    const int shift = (Policy::kLanes - head) % Policy::kLanes;
    launch_packs<Policy::kThreads, Policy::kLanes, Policy::kPacks>(count, shift, stream, op, operands...);
  }
}

}  // namespace terngrad::cuda

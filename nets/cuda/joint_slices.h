// JointSlices: one library call for the slices of all local workers, if that changes no bit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "nets/cuda/layer.h"

namespace terngrad::cuda {

/// Elements per slice of each operand.
struct SliceElements {
  std::int64_t first = 0;   // first operand, with a part for each slice
  std::int64_t second = 0;  // second operand, shared by all slices
  std::int64_t result = 0;
};

/// Submits the operation once per slice.
template <class Operation>
void run_slices(const Operation& slice, const SliceElements& elements, int num_slices, const float* first,
                const float* second, float* result, void* workspace, const Stream& stream) {
  for (int s = 0; s < num_slices; ++s) {
    slice.run(first + s * elements.first, second, result + s * elements.result, workspace, stream);
  }
}

/// True if `joint` and `slices` give the same bits for all `num_slices` slices, on operands filled with numbers from
/// -1/2 to 1/2. Allocates, and waits for the stream.
bool joint_slices_agree(const SliceElements& elements, int num_slices, std::int64_t workspace_bytes,
                        const Stream& stream,
                        const std::function<void(const float*, const float*, float*, void*)>& joint,
                        const std::function<void(const float*, const float*, float*, void*)>& slices);

/// A library operation (ConvolutionPass or MatrixProduct) on the slices of all workers. One call for all of them may
/// sum in another order than a call per slice, so that a worker's gradient would depend on the number of workers
/// (contract B3). So the joint operation is used only if a test during construction of the net gives the same bits;
/// otherwise a note is recorded.
template <class Operation>
class JointSlices {
 public:
  JointSlices() = default;
  /// @param joint  the operation for all slices; null if the library has none
  /// @param name   name of the layer, for notes
  JointSlices(Operation slice, std::unique_ptr<Operation> joint, const SliceElements& elements, int num_slices,
              const LayerContext& context, const std::string& name)
      : slice_(std::make_unique<Operation>(std::move(slice))), elements_(elements), num_slices_(num_slices) {
    if (num_slices == 1) return;
    const auto is_equal = [&] {
      return joint_slices_agree(
          elements, num_slices, std::max(slice_->workspace_bytes(), joint->workspace_bytes()), context.stream(),
          [&](const float* a, const float* b, float* c, void* workspace) {
            joint->run(a, b, c, workspace, context.stream());
          },
          [&](const float* a, const float* b, float* c, void* workspace) {
            run_slices(*slice_, elements_, num_slices_, a, b, c, workspace, context.stream());
          });
    };
    if (joint != nullptr && is_equal()) {
      joint_ = std::move(joint);
    } else {
      context.notes->push_back(
          name + ": one call per worker, " +
          (joint == nullptr ? "the library has no call for all" : "a call for all gives other bits"));
    }
  }

  std::int64_t workspace_bytes() const {
    if (slice_ == nullptr) return 0;
    return joint_ != nullptr ? joint_->workspace_bytes() : slice_->workspace_bytes();
  }
  void run(const float* first, const float* second, float* result, void* workspace, const Stream& stream) const {
    if (joint_ != nullptr) {
      joint_->run(first, second, result, workspace, stream);
    } else {
      run_slices(*slice_, elements_, num_slices_, first, second, result, workspace, stream);
    }
  }

 private:
  std::unique_ptr<Operation> slice_;
  std::unique_ptr<Operation> joint_;  // null: slice by slice
  SliceElements elements_;
  int num_slices_ = 1;
};

}  // namespace terngrad::cuda

// Descriptors of cuDNN; needs its library but no GPU.
#include "nets/cuda/cudnn_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>

#include "kernels/runtime/errors.h"

namespace terngrad::cuda::cudnn_graph_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

GraphDescriptor vector_tensor(std::int64_t id) {
  GraphDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
  tensor.set_array<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, std::array<std::int64_t, 4>{2, 3, 5, 7});
  tensor.set_array<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES, std::array<std::int64_t, 4>{105, 1, 21, 3});
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16});
  return tensor;
}

TEST(CudnnGraphTest, AttributesAreRead) {
  GraphDescriptor tensor = vector_tensor(9);
  tensor.finalize();
  EXPECT_EQ(tensor.get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID), 9);
  EXPECT_EQ(tensor.get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE), CUDNN_DATA_FLOAT);
  EXPECT_THAT(tensor.get_array<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_DIM_MAX), ElementsAre(2, 3, 5, 7));
  EXPECT_THAT(tensor.get_array<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES, 4), ElementsAre(105, 1, 21, 3));
}

TEST(CudnnGraphTest, AMovedDescriptorIsTheSame) {
  GraphDescriptor tensor = vector_tensor(3);
  tensor.finalize();
  const cudnnBackendDescriptor_t native = tensor.native();
  const GraphDescriptor moved = std::move(tensor);
  EXPECT_EQ(moved.native(), native);
  EXPECT_EQ(moved.get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID), 3);
}

TEST(CudnnGraphTest, ErrorsNameTheCallAndTheCause) {
  GraphDescriptor empty(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  try {
    empty.finalize();
    FAIL() << "a tensor without dimensions was accepted";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("cudnnBackendFinalize"));
    EXPECT_THAT(error.what(), HasSubstr("CUDNN_STATUS_BAD_PARAM ("));
  }
  EXPECT_NE(empty.try_finalize(), CUDNN_STATUS_SUCCESS);
}

TEST(CudnnGraphTest, AttributesOfAnotherDescriptorAreRefused) {
  GraphDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  EXPECT_THROW(tensor.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, std::int64_t{1}), DeviceError);
  EXPECT_THROW(tensor.get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID), DeviceError);  // not finalized
}

TEST(CudnnGraphTest, SuccessIsNoError) { EXPECT_NO_THROW(check_cudnn(CUDNN_STATUS_SUCCESS, "a call")); }

}  // namespace
}  // namespace terngrad::cuda::cudnn_graph_test

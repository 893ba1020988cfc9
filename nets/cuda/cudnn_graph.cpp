#include "nets/cuda/cudnn_graph.h"

#include <algorithm>
#include <array>

#include "kernels/runtime/errors.h"

namespace terngrad::cuda {

std::string describe_cudnn_error(cudnnStatus_t status) {
  std::array<char, 1024> cause{};
  cudnnGetLastErrorString(cause.data(), cause.size());
  std::string text = cudnnGetErrorString(status);
  if (cause.front() != '\0') text += std::string(" (") + cause.data() + ")";
  return text;
}

void check_cudnn(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  TERNGRAD_THROW(DeviceError, "[cudnn] ", call, " failed: ", describe_cudnn_error(status));
}

void GraphDescriptor::Destroy::operator()(void* descriptor) const {
  static_cast<void>(cudnnBackendDestroyDescriptor(descriptor));
}

GraphDescriptor::GraphDescriptor(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t descriptor = nullptr;
  check_cudnn(cudnnBackendCreateDescriptor(type, &descriptor), "cudnnBackendCreateDescriptor");
  descriptor_.reset(descriptor);
}

void GraphDescriptor::set(cudnnBackendAttributeName_t name, const GraphDescriptor& value) {
  check_cudnn(try_set_array(name, std::span(&value, 1)), "cudnnBackendSetAttribute");
}

cudnnStatus_t GraphDescriptor::try_set_array(cudnnBackendAttributeName_t name,
                                             std::span<const GraphDescriptor> values) {
  std::vector<cudnnBackendDescriptor_t> natives;
  natives.reserve(values.size());
  for (const GraphDescriptor& value : values) natives.push_back(value.native());
  return cudnnBackendSetAttribute(native(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                  static_cast<std::int64_t>(natives.size()), natives.data());
}

void GraphDescriptor::finalize() { check_cudnn(try_finalize(), "cudnnBackendFinalize"); }

cudnnStatus_t GraphDescriptor::try_finalize() { return cudnnBackendFinalize(native()); }

std::vector<GraphDescriptor> GraphDescriptor::get_descriptors(cudnnBackendAttributeName_t name,
                                                              cudnnBackendDescriptorType_t type,
                                                              std::int64_t capacity) const {
  // cuDNN fills in descriptors that the caller has created.
  std::vector<GraphDescriptor> descriptors;
  std::vector<cudnnBackendDescriptor_t> natives;
  for (std::int64_t i = 0; i < capacity; ++i) {
    descriptors.emplace_back(type);
    natives.push_back(descriptors.back().native());
  }
  const std::int64_t size = get_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, capacity, natives.data());
  descriptors.erase(descriptors.begin() + size, descriptors.end());
  return descriptors;
}

std::int64_t GraphDescriptor::num_descriptors(cudnnBackendAttributeName_t name) const {
  return get_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
}

void GraphDescriptor::set_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                              const void* values) {
  check_cudnn(cudnnBackendSetAttribute(native(), name, type, count, values), "cudnnBackendSetAttribute");
}

std::int64_t GraphDescriptor::get_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                      std::int64_t capacity, void* values) const {
  std::int64_t count = 0;
  check_cudnn(cudnnBackendGetAttribute(native(), name, type, capacity, &count, values), "cudnnBackendGetAttribute");
  return capacity == 0 ? count : std::min(count, capacity);
}

}  // namespace terngrad::cuda

// Wrapper of cuDNN's graph ("backend") API: owned descriptors, typed attributes and error messages.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace terngrad::cuda {

/// Name of the error with cuDNN's last error message of this thread.
std::string describe_cudnn_error(cudnnStatus_t status);
/// @throws DeviceError naming the call and the error, unless `status` is success
void check_cudnn(cudnnStatus_t status, const char* call);

/// cuDNN's attribute type for values of type T.
template <class T>
constexpr cudnnBackendAttributeType_t graph_attribute_type() {
  if constexpr (std::is_same_v<T, std::int64_t>) return CUDNN_TYPE_INT64;
  if constexpr (std::is_same_v<T, float>) return CUDNN_TYPE_FLOAT;
  if constexpr (std::is_same_v<T, char>) return CUDNN_TYPE_CHAR;
  if constexpr (std::is_same_v<T, void*>) return CUDNN_TYPE_VOID_PTR;
  if constexpr (std::is_same_v<T, cudnnHandle_t>) return CUDNN_TYPE_HANDLE;
  if constexpr (std::is_same_v<T, cudnnDataType_t>) return CUDNN_TYPE_DATA_TYPE;
  if constexpr (std::is_same_v<T, cudnnConvolutionMode_t>) return CUDNN_TYPE_CONVOLUTION_MODE;
  if constexpr (std::is_same_v<T, cudnnBackendHeurMode_t>) return CUDNN_TYPE_HEUR_MODE;
  if constexpr (std::is_same_v<T, cudnnBackendKnobType_t>) return CUDNN_TYPE_KNOB_TYPE;
  if constexpr (std::is_same_v<T, cudnnBackendNumericalNote_t>) return CUDNN_TYPE_NUMERICAL_NOTE;
  if constexpr (std::is_same_v<T, cudnnBackendBehaviorNote_t>) return CUDNN_TYPE_BEHAVIOR_NOTE;
}

/// An owned descriptor: created, given attributes, then finalized, after which it is immutable.
class GraphDescriptor {
 public:
  explicit GraphDescriptor(cudnnBackendDescriptorType_t type);

  template <class T>
  void set(cudnnBackendAttributeName_t name, const T& value) {
    set_array<T>(name, {&value, 1});
  }
  template <class T>
  void set_array(cudnnBackendAttributeName_t name, std::type_identity_t<std::span<const T>> values) {
    set_raw(name, graph_attribute_type<T>(), static_cast<std::int64_t>(values.size()), values.data());
  }
  /// Sets an attribute to another descriptor, which must be finalized; cuDNN keeps what it needs of it.
  void set(cudnnBackendAttributeName_t name, const GraphDescriptor& value);
  /// As set, but returns the status, for settings that cuDNN may not support.
  [[nodiscard]] cudnnStatus_t try_set_array(cudnnBackendAttributeName_t name, std::span<const GraphDescriptor> values);

  void finalize();
  /// As finalize, but returns the status.
  [[nodiscard]] cudnnStatus_t try_finalize();

  template <class T>
  T get(cudnnBackendAttributeName_t name) const {
    T value{};
    get_raw(name, graph_attribute_type<T>(), 1, &value);
    return value;
  }
  /// The values of an attribute, at most `capacity`.
  template <class T>
  std::vector<T> get_array(cudnnBackendAttributeName_t name, std::int64_t capacity) const {
    std::vector<T> values(static_cast<std::size_t>(capacity));
    values.resize(static_cast<std::size_t>(get_raw(name, graph_attribute_type<T>(), capacity, values.data())));
    return values;
  }
  /// The same for descriptors of one type.
  std::vector<GraphDescriptor> get_descriptors(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type,
                                               std::int64_t capacity) const;
  /// Number of descriptors in an attribute.
  std::int64_t num_descriptors(cudnnBackendAttributeName_t name) const;

  cudnnBackendDescriptor_t native() const { return descriptor_.get(); }

 private:
  void set_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
               const void* values);
  /// @returns the number of values written, or with capacity 0 the number of values
  std::int64_t get_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t capacity,
                       void* values) const;

  struct Destroy {
    void operator()(void* descriptor) const;
  };
  std::unique_ptr<void, Destroy> descriptor_;
};

}  // namespace terngrad::cuda

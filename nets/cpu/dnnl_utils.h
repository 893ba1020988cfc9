// oneDNN wrapper: descriptors from shapes, primitives with their memories, exceptions from errors.
#pragma once

#include <cstddef>
#include <dnnl.hpp>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "nets/net.h"

namespace terngrad::cpu {

/// Rethrows a oneDNN error: NotSupported if the machine or the library lacks an implementation, std::bad_alloc,
/// InvalidArgument for rejected arguments, Error otherwise; the message names `operation`.
[[noreturn]] void throw_dnnl_error(const std::string& operation, const dnnl::error& error);

/// Calls `function` and converts a dnnl::error by throw_dnnl_error.
template <class Function>
std::invoke_result_t<Function> dnnl_call(const std::string& operation, Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const dnnl::error& error) {
    throw_dnnl_error(operation, error);
  }
}

/// Scratch memory shared by the primitives of one slot, which run sequentially. Sized while layers are built, then
/// allocated by `allocate`.
class Scratchpad {
 public:
  void reserve(std::size_t bytes);
  void allocate();
  void* data() { return buffer_.data(); }

 private:
  std::size_t bytes_ = 0;
  Buffer<std::byte> buffer_;
};

/// Engine, stream and scratchpad of one slot's primitives. Not thread-safe.
struct DnnlContext {
  dnnl::engine engine;
  dnnl::stream stream;
  Scratchpad* scratchpad;
};

/// float32 descriptors. Images are [num_examples, height, width, channels], channels fastest.
dnnl::memory::desc image_desc(int num_examples, const ImageShape& shape);
dnnl::memory::desc matrix_desc(std::int64_t rows, std::int64_t columns);
dnnl::memory::desc vector_desc(std::int64_t num_elements);

/// Attributes of every primitive: user-provided scratchpad, since oneDNN's own belongs to the thread that created the
/// primitive.
dnnl::primitive_attr default_attributes();

/// A primitive with one memory per argument. Arguments keep their memory from run to run until they are bound again.
class Operation {
 public:
  Operation() = default;
  /// @param arguments  {DNNL_ARG_*, descriptor of its memory}; memory is bound later
  Operation(const DnnlContext& context, std::string name, const dnnl::primitive& primitive,
            const dnnl::memory::desc& scratchpad, const std::vector<std::pair<int, dnnl::memory::desc>>& arguments);

  /// Binds `argument` to `data`, which must stay valid during `run`. Data of input arguments is not written.
  void bind(int argument, const void* data);
  /// @throws as throw_dnnl_error
  void run();

 private:
  const DnnlContext* context_ = nullptr;
  std::string name_;
  dnnl::primitive primitive_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

/// Makes the operation that copies from format `from` to format `to`.
Operation make_reorder(const DnnlContext& context, const std::string& name, const dnnl::memory::desc& from,
                       const dnnl::memory::desc& to);

/// A buffer for memory described by `desc`.
Buffer<std::byte> make_buffer(const dnnl::memory::desc& desc);

}  // namespace terngrad::cpu

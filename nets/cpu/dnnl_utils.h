// oneDNN behind one file: shapes to descriptors, primitives with their memories, errors to exceptions.
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

/// Throws what a oneDNN error means: NotSupported where the machine or the library lacks an implementation,
/// std::bad_alloc for memory, InvalidArgument for arguments it refuses, Error otherwise; the message names `operation`.
[[noreturn]] void throw_dnnl_error(const std::string& operation, const dnnl::error& error);

/// Calls `function` and turns a dnnl::error into the exceptions of throw_dnnl_error.
template <class Function>
std::invoke_result_t<Function> dnnl_call(const std::string& operation, Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const dnnl::error& error) {
    throw_dnnl_error(operation, error);
  }
}

/// Scratch memory that the primitives of one slot take turns to use: they run one after another. Sized while layers are
/// built, allocated once by `allocate`.
class Scratchpad {
 public:
  void reserve(std::size_t bytes);
  void allocate();
  void* data() { return buffer_.data(); }

 private:
  std::size_t bytes_ = 0;
  Buffer<std::byte> buffer_;
};

/// Where primitives of one slot are made and run. Not for use by two threads at once.
struct DnnlContext {
  dnnl::engine engine;
  dnnl::stream stream;
  Scratchpad* scratchpad;
};

/// Float descriptors. Images are [num_examples, height, width, channels], channels fastest.
dnnl::memory::desc image_desc(int num_examples, const ImageShape& shape);
dnnl::memory::desc matrix_desc(std::int64_t rows, std::int64_t columns);
dnnl::memory::desc vector_desc(std::int64_t num_elements);

/// Attributes of every primitive: scratch memory comes from the caller, since oneDNN's own belongs to the thread that
/// made the primitive.
dnnl::primitive_attr default_attributes();

/// A primitive with one memory per argument. Arguments that move are bound before each run; the rest keep their memory.
class Operation {
 public:
  Operation() = default;
  /// @param arguments  DNNL_ARG_* and the descriptor of its memory, which is bound later
  Operation(const DnnlContext& context, std::string name, const dnnl::primitive& primitive,
            const dnnl::memory::desc& scratchpad, const std::vector<std::pair<int, dnnl::memory::desc>>& arguments);

  /// Points `argument` at `data`, which must stay valid during `run`. Data of input arguments is not written.
  void bind(int argument, const void* data);
  /// @throws what throw_dnnl_error says
  void run();

 private:
  const DnnlContext* context_ = nullptr;
  std::string name_;
  dnnl::primitive primitive_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

/// Makes the copy of `from` in the format of `to`.
Operation make_reorder(const DnnlContext& context, const std::string& name, const dnnl::memory::desc& from,
                       const dnnl::memory::desc& to);

/// A buffer for memory described by `desc`.
Buffer<std::byte> make_buffer(const dnnl::memory::desc& desc);

}  // namespace terngrad::cpu

#include "nets/cpu/dnnl_utils.h"

#include <algorithm>
#include <new>
#include <sstream>

#include "kernels/runtime/errors.h"
#include "nets/net.h"

namespace terngrad::cpu {

void throw_dnnl_error(const std::string& operation, const dnnl::error& error) {
  switch (error.status) {
    case dnnl_out_of_memory:
      throw std::bad_alloc();
    case dnnl_unimplemented:
      TERNGRAD_THROW(NotSupported, "[", operation, "] oneDNN has no implementation for this: ", error.what());
    case dnnl_invalid_arguments:
      TERNGRAD_THROW(InvalidArgument, "[", operation, "] oneDNN refuses the arguments: ", error.what());
    default:
      TERNGRAD_THROW(Error, "[", operation, "] oneDNN failed with status ", static_cast<int>(error.status), ": ",
                     error.what());
  }
}

void Scratchpad::reserve(std::size_t bytes) { bytes_ = std::max(bytes_, bytes); }

void Scratchpad::allocate() {
  buffer_ = Buffer<std::byte>(static_cast<std::int64_t>(std::max<std::size_t>(bytes_, 1)));
}

dnnl::memory::desc image_desc(int num_examples, const ImageShape& shape) {
  // oneDNN lists dimensions as N, C, H, W, whatever their order in memory.
  return {{num_examples, shape.channels, shape.height, shape.width},
          dnnl::memory::data_type::f32,
          dnnl::memory::format_tag::nhwc};
}

dnnl::memory::desc matrix_desc(std::int64_t rows, std::int64_t columns) {
  return {{rows, columns}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab};
}

dnnl::memory::desc vector_desc(std::int64_t num_elements) {
  return {{num_elements}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::a};
}

dnnl::primitive_attr default_attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

Operation::Operation(const DnnlContext& context, std::string name, const dnnl::primitive& primitive,
                     const dnnl::memory::desc& scratchpad,
                     const std::vector<std::pair<int, dnnl::memory::desc>>& arguments)
    : context_(&context), name_(std::move(name)), primitive_(primitive) {
  context.scratchpad->reserve(scratchpad.get_size());
  arguments_.emplace(DNNL_ARG_SCRATCHPAD, dnnl::memory(scratchpad, context.engine, nullptr));
  for (const auto& [argument, desc] : arguments) {
    arguments_.emplace(argument, dnnl::memory(desc, context.engine, nullptr));
  }
}

void Operation::bind(int argument, const void* data) {
  arguments_.at(argument).set_data_handle(const_cast<void*>(data));  // oneDNN has no const memory
}

void Operation::run() {
  dnnl_call(name_, [&] {
    bind(DNNL_ARG_SCRATCHPAD, context_->scratchpad->data());
    primitive_.execute(context_->stream, arguments_);
  });
}

Operation make_reorder(const DnnlContext& context, const std::string& name, const dnnl::memory::desc& from,
                       const dnnl::memory::desc& to) {
  const dnnl::reorder::primitive_desc desc(context.engine, from, context.engine, to, default_attributes());
  return {context, name, dnnl::reorder(desc), desc.scratchpad_desc(), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
}

Buffer<std::byte> make_buffer(const dnnl::memory::desc& desc) {
  return zeros<std::byte>(static_cast<std::int64_t>(desc.get_size()));
}

}  // namespace terngrad::cpu

namespace terngrad {

std::string cpu_library() {
  const dnnl_version_t* const version = dnnl_version();
  std::ostringstream text;
  // Numeric value of the dnnl_cpu_isa_t enumeration, larger for more capable instruction sets.
  text << "oneDNN " << version->major << "." << version->minor << "." << version->patch << " with instruction set "
       << std::hex << std::showbase << static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return text.str();
}

}  // namespace terngrad

#include "nets/cpu/dnnl_utils.h"

#include <gtest/gtest.h>

#include <new>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "nets/net.h"

namespace terngrad::cpu::dnnl_utils_test {
namespace {

template <class Exception>
std::string message_of(dnnl_status_t status) {
  try {
    dnnl_call("conv7 forward", [&] { throw dnnl::error(status, "could not do it"); });
  } catch (const Exception& error) {
    return error.what();
  }
  return {};
}

TEST(CpuLibrary, SaysVersionAndInstructions) {
  const std::string text = cpu_library();
  EXPECT_EQ(text.find("oneDNN " + std::to_string(dnnl_version()->major) + "."), 0u);
  EXPECT_NE(text.find("instruction set 0x"), std::string::npos);
  EXPECT_EQ(cpu_library(), text);
}

TEST(DnnlCall, TurnsEachStatusIntoItsException) {
  EXPECT_NE(message_of<NotSupported>(dnnl_unimplemented).find("conv7 forward"), std::string::npos);
  EXPECT_NE(message_of<InvalidArgument>(dnnl_invalid_arguments).find("conv7 forward"), std::string::npos);
  EXPECT_NE(message_of<Error>(dnnl_runtime_error).find("conv7 forward"), std::string::npos);
  EXPECT_THROW(message_of<Error>(dnnl_out_of_memory), std::bad_alloc);
}

TEST(DnnlCall, PassesResultsAndOtherExceptionsOn) {
  EXPECT_EQ(dnnl_call("x", [] { return 3; }), 3);
  EXPECT_THROW(dnnl_call("x", [] { throw 5; }), int);
}

TEST(Reorder, CopiesHwioToOihw) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  Scratchpad scratchpad;
  const DnnlContext context{engine, dnnl::stream(engine), &scratchpad};
  const dnnl::memory::dims dims = {2, 3, 1, 2};  // O, I, H, W
  Operation reorder =
      make_reorder(context, "test", {dims, dnnl::memory::data_type::f32, dnnl::memory::format_tag::hwio},
                   {dims, dnnl::memory::data_type::f32, dnnl::memory::format_tag::oihw});
  scratchpad.allocate();
  const std::vector<float> hwio = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  std::vector<float> oihw(12, -1);
  reorder.bind(DNNL_ARG_FROM, hwio.data());
  reorder.bind(DNNL_ARG_TO, oihw.data());
  reorder.run();
  EXPECT_EQ(oihw, (std::vector<float>{0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11}));
}

}  // namespace
}  // namespace terngrad::cpu::dnnl_utils_test
